"""Gate relay: the console and the files of a machine on another computer, whose network falls silent and is cut under them."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from pytest_django.fixtures import Settings

from sessions_app.models import Session
from tests.integration.inside import terminal_client
from tests.integration.inside.conftest import HOST, SESSION, Inside, address_of_site, booted, files, inside, session, web
from tests.integration.inside.terminal_client import Console
from tests.support import far
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import Tenant
from tests.support.waiting import until
from workers.models import Host, HostRelay
from workers.relay import proof, pump
from workers.relay.door import Door

__all__ = ["address_of_site", "booted", "doorbells", "files", "inside", "owner", "session", "web"]
pytestmark = [
    pytest.mark.vm,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(far.obstacle() is not None, reason="two computers in one need root, network namespaces and iproute2"),
]
FILE_BYTES = 8 << 20
#: The kernel gives a peer up that has acknowledged nothing for 30 s; the rest is this test's.
ENDS_SECONDS = 45.0


@dataclass(frozen=True)
class There:
    """The web process is on one computer, the machine and its relay on the other."""

    network: far.Network
    web: httpx.Client
    files: str
    console: Callable[[], Console]

    def list_files(self) -> tuple[int, str, float]:
        """Status, the error's code, and when the answer came."""
        answer = self.web.get(self.files)
        return answer.status_code, answer.json().get("error", {}).get("code", ""), time.monotonic()


@pytest.fixture
def there(
    inside: Inside,
    session: Session,
    owner: Tenant,
    web: httpx.Client,
    files: str,
    address_of_site: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[There]:
    monkeypatch.setattr(terminal_client, "SECONDS", ENDS_SECONDS)
    directory = inside.var / "host" / HOST
    settings.KEEPSTATE_VAR, settings.KEEPSTATE_MASTER_KEY = tmp_path_factory.mktemp("web"), os.urandom(32)
    Host.objects.create(id=HOST, memory_bytes=1, cpus=1, boot_id="boot")
    told: list[tuple[int, str]] = []
    with far.network() as network, far.dialling_from(network.web):
        network.host.do(Door(directory, far.HOST_ADDRESS, 0, [settings.KEEPSTATE_MASTER_KEY], lambda *facts: told.append(facts)).start)
        until(lambda: told, 10, "the door listens")
        marks = [proof.mark(settings.KEEPSTATE_MASTER_KEY, told[0][1])]
        HostRelay.objects.create(host_id=HOST, address=far.HOST_ADDRESS, port=told[0][0], fingerprint=told[0][1], key_marks=marks)
        yield There(network, web, files, lambda: Console(address_of_site, SESSION, owner.plain))


def prove_relay(there: There, evidence: dict[str, Any]) -> None:
    data = os.urandom(FILE_BYTES)
    began = time.monotonic()
    assert there.web.put(f"{there.files}/content", params={"path": "there"}, content=data).status_code == 200
    assert there.web.get(f"{there.files}/download", params={"path": "there"}).content == data
    evidence |= {"file_bytes": len(data), "up_and_down_seconds": round(time.monotonic() - began, 2)}
    with there.console() as console:
        console.type(b"KEPT=kept-$$; echo it is $((6 * 7))\r")
        console.until(b"it is 42\r\n")
    evidence["silent"] = goes(there, there.network.fall_silent)
    evidence["cut"] = goes(there, there.network.be_cut)


def goes(there: There, act: Callable[[], None]) -> dict[str, float]:
    """Seconds until each was told, with a console open and a question under way. Once the network is back the shell is the same."""
    answers: list[tuple[int, str, float]] = []
    with there.console() as console:
        console.type(b"echo still $KEPT\r")
        console.until(b"still kept-")
        act()
        began = time.monotonic()
        asking = threading.Thread(target=lambda: answers.append(there.list_files()), daemon=True)
        asking.start()
        console.type(b"echo lost\r")
        assert console.until_closed() == (1012, "relay_closed")
        console_seconds = time.monotonic() - began
        asking.join(ENDS_SECONDS)
    assert [(status, code) for status, code, _ in answers] == [(503, "ks_fleet_unavailable")]
    there.network.be_mended()
    until(lambda: there.list_files()[0] == 200, 30, "files are listed again")  # the kernel finds its neighbour again first
    return {"console_seconds": round(console_seconds, 1), "question_seconds": round(answers[0][2] - began, 1)}


@pytest.mark.gate(
    "relay",
    "The console and the files of a machine on another computer work across the network, and end in words within 45 s when it falls "
    "silent or is cut; once it is back they work again, in the same shell",
)
def test_console_and_files_of_another_computer(there: There, evidence: dict[str, Any]) -> None:
    prove_relay(there, evidence)


def test_gate_relay_fails_when_nobody_watches_for_a_peer_that_is_gone(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "watch", lambda writer: None)
    with pytest.raises(TimeoutError):  # of the console, that nobody ends
        prove_relay(there, {})
