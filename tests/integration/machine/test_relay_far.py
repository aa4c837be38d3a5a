"""A host's relay and a web process on two computers: what each is told when the other end is not who it should be, or the network goes."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from sessions_app.errors import FleetUnavailable
from sessions_app.models import Session
from tests.support import far
from tests.support.relays import listens, sent_away, silent
from tests.support.waiting import until
from workers.machine.script import ScriptResult
from workers.models import Host, HostRelay
from workers.relay import admission, client, dial, proof, pump, server
from workers.relay.door import Door

pytestmark = [
    pytest.mark.skipif(far.obstacle() is not None, reason="two computers in one need root, network namespaces and iproute2"),
    pytest.mark.django_db,
]
SESSION, HOST = "a" * 32, "h-far"
MASTER = os.urandom(32)
#: As in the product, in seconds instead of half a minute.
WATCH = ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2), (socket.TCP_USER_TIMEOUT, 1500))
ENDS_SECONDS = 15
QUESTION = ("files.list", {"path": "", "limit": 5})


class Machine:
    """Its guest answers at once, or not before `goes_on` is set."""

    runtime = Path("/nowhere")

    def __init__(self) -> None:
        self.asked, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    def script(self, *_: object, **__: object) -> ScriptResult:
        self.asked.set()
        assert self.goes_on.wait(60)
        return ScriptResult(0, b"directory 0\n", "")

    def terminal(self) -> None:
        raise AssertionError("nobody asks for it")


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[far.Network]:
    """The thread that dials for this process is on the web process's computer."""
    monkeypatch.setattr(pump, "_WATCH", WATCH)
    with far.network() as made, far.dialling_from(made.web):
        yield made


@pytest.fixture
def machine(network: far.Network, tmp_path: Path) -> Iterator[Machine]:
    """Behind the relay of its host, whose door listens on the other computer and is in the database."""
    found = Machine()
    serving = server.start(tmp_path, lambda session, epoch: found)  # type: ignore[arg-type,return-value]
    told: list[tuple[int, str]] = []
    network.host.do(Door(tmp_path, far.HOST_ADDRESS, 0, [MASTER], lambda *facts: told.append(facts)).start)
    until(lambda: told and listens(tmp_path), 10, "the door and the relay listen")
    Host.objects.create(id=HOST, memory_bytes=1, cpus=1, boot_id="boot")
    marks = [proof.mark(MASTER, told[0][1])]
    HostRelay.objects.create(host_id=HOST, address=far.HOST_ADDRESS, port=told[0][0], fingerprint=told[0][1], key_marks=marks)
    yield found
    found.goes_on.set()
    serving.close()


@pytest.fixture
def session(machine: Machine, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """As a web process knows it that is not on its host."""
    settings.KEEPSTATE_VAR, settings.KEEPSTATE_MASTER_KEY = tmp_path_factory.mktemp("web"), MASTER
    return Session(id=SESSION, epoch=1, host_id=HOST)


def answered(session: Session) -> bool:
    try:
        return client.ask(session, *QUESTION)[0]["ok"] is True
    except FleetUnavailable:
        return False


def connected(network: far.Network) -> int:
    """Connections that the host's computer believes in."""
    table = network.host.do(lambda: Path("/proc/thread-self/net/tcp").read_text())
    return sum(line.split()[3] == "01" for line in table.splitlines()[1:])


def test_a_question_is_answered_from_another_computer(session: Session) -> None:
    assert answered(session)


def test_a_web_process_with_another_master_key_knows_it_and_asks_nothing(
    session: Session, settings: Settings, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    settings.KEEPSTATE_MASTER_KEY = os.urandom(32)
    with pytest.raises(FleetUnavailable, match=r"another master key .* Nothing was done"):
        client.ask(session, *QUESTION)
    assert [vars(record)["host"] for record in caplog.records if "another master key" in record.message] == [HOST]
    assert not machine.asked.is_set()


def test_a_proof_under_another_master_key_gets_nothing_from_the_network(session: Session, settings: Settings, machine: Machine) -> None:
    settings.KEEPSTATE_MASTER_KEY = os.urandom(32)
    relay = HostRelay.objects.get()
    HostRelay.objects.update(key_marks=[proof.mark(settings.KEEPSTATE_MASTER_KEY, relay.fingerprint)])  # a lie that makes it ask
    with pytest.raises(FleetUnavailable, match="ended before it answered"):
        client.ask(session, *QUESTION)
    assert not machine.asked.is_set()


def test_another_certificate_than_the_database_tells_is_asked_nothing(session: Session, machine: Machine) -> None:
    HostRelay.objects.update(fingerprint="00" * 32, key_marks=[proof.mark(MASTER, "00" * 32)])
    with pytest.raises(FleetUnavailable, match="does not run"):
        client.ask(session, *QUESTION)
    assert not machine.asked.is_set()


def test_a_connection_without_tls_gets_nothing_and_disturbs_nobody(session: Session, network: far.Network, machine: Machine) -> None:
    port = HostRelay.objects.get().port
    said = network.web.do(lambda: _knock(port))
    assert b"ok" not in said
    assert not machine.asked.is_set()
    assert answered(session)


def _knock(port: int) -> bytes:
    with socket.create_connection((far.HOST_ADDRESS, port), 5) as plain:
        plain.settimeout(10)
        plain.sendall(b'{"verb": "files.list"}\n' * 100)
        try:
            return plain.recv(1000)
        except ConnectionError:
            return b""


def test_a_flood_of_silent_connections_keeps_no_question_from_its_answer(session: Session, network: far.Network) -> None:
    door = (far.HOST_ADDRESS, HostRelay.objects.get().port)
    with silent(door, admission.STRANGERS + 20, there=network.web.do) as flood:
        until(lambda: sent_away(flood), 10, "there are more than are waited for")
        assert answered(session)


@pytest.mark.parametrize("goes", [far.Network.fall_silent, far.Network.be_cut], ids=["silent", "cut"])
def test_a_network_that_goes_in_the_middle_ends_the_question_at_both_ends_and_one_that_is_back_answers(
    session: Session, network: far.Network, machine: Machine, goes: Callable[[far.Network], None]
) -> None:
    machine.goes_on.clear()
    refused: list[FleetUnavailable] = []

    def ask() -> None:
        try:
            client.question(opened, session, *QUESTION)
        except FleetUnavailable as error:
            refused.append(error)

    with client.open_link(session) as opened:
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        assert machine.asked.wait(10)
        goes(network)
        asking.join(ENDS_SECONDS)
    assert [str(error) for error in refused] == [
        "The worker that reaches the machine ended before it answered. Whether anything was done is not known."
    ]
    until(lambda: connected(network) == 0, ENDS_SECONDS, "the host has let go of the connection too")
    machine.goes_on.set()
    network.be_mended()
    until(lambda: answered(session), ENDS_SECONDS, "a question is answered again")  # the kernel finds its neighbour again first


def test_a_host_that_is_silent_from_the_start_is_told_as_such(
    session: Session, network: far.Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "CONNECT_SECONDS", 0.3)
    network.fall_silent()
    with pytest.raises(FleetUnavailable, match=r"does not run\. Nothing was done"):
        client.ask(session, *QUESTION)
