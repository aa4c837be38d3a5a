"""One real machine, its host's relay, and the real web server: what reaches into a machine is tested from the outside."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn
from pytest_django.fixtures import Settings

from sessions_app.models import Session
from tests.machine_kit import BOOT_SECONDS
from tests.support import fleet
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import Tenant
from tests.support.waiting import until
from workers.guest.image import list_images
from workers.host import drivers, identity
from workers.machine.driver import GuestImage, MachineSpec
from workers.machine.qemu.driver import QemuDriver
from workers.machine.qemu.machine import QemuMachine
from workers.relay import address, server

__all__ = ["doorbells", "owner"]

HOST = "h-inside"
SESSION = "5e55" * 8


@dataclass
class Inside:
    """`runtime`: where the session's machine lives now; a test that resumes it elsewhere says so here."""

    var: Path
    driver: QemuDriver
    spec: MachineSpec
    image: GuestImage
    runtime: Path

    @property
    def machine(self) -> QemuMachine:
        found = self.driver.attach(self.runtime)
        assert isinstance(found, QemuMachine)
        return found

    def sh(self, script: str) -> str:
        result = self.machine.exec(["/bin/sh", "-c", script], timeout_seconds=60, output_limit=1 << 20)
        assert result.exit_code == 0, result
        return result.stdout.decode().strip()


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    from django.conf import settings

    found = [image for image in list_images(Path(settings.KEEPSTATE_IMAGES)) if image.name == "tiny"]
    if not found:
        pytest.skip("the guest image tiny is not built: ./keepstate up, or python -m workers.guest tiny")
    place = tmp_path_factory.mktemp("inside")
    driver, spec = QemuDriver(place / "proofs"), MachineSpec(SESSION, 256 << 20, 1)
    driver.boot(place / "machine", spec, found[-1], timeout_seconds=BOOT_SECONDS)
    inside = Inside(place / "var", driver, spec, found[-1], place / "machine")
    directory = inside.var / "host" / HOST
    relay = server.start(directory, lambda session, epoch: driver.attach(inside.runtime) if session == SESSION else None)
    until(lambda: _listens(directory), 10, "the relay listens")
    yield inside
    relay.close()
    for record in place.rglob("machine.json"):
        machine = driver.attach(record.parent)
        if machine is not None:
            machine.kill()


def _listens(directory: Path) -> bool:
    with contextlib.suppress(OSError), address.reach(directory):
        return True
    return False


@pytest.fixture
def inside(booted: Inside, settings: Settings) -> Iterator[Inside]:
    """This process is the web process of the machine's host."""
    settings.KEEPSTATE_VAR = booted.var
    settings.KEEPSTATE_HOST_ID = HOST
    for cached in (identity.host_id, drivers.driver):
        cached.cache_clear()
    yield booted
    for cached in (identity.host_id, drivers.driver):
        cached.cache_clear()


@pytest.fixture
def session(inside: Inside, transactional_db: None, owner: Tenant) -> Session:
    return fleet.session_row(owner.account, id=SESSION, host_id=HOST)


@pytest.fixture(scope="module")
def address_of_site(django_db_setup: None) -> Iterator[str]:
    """The real server with the real application; host and port."""
    from keepstate_site.console.protocol import ConsoleProtocol
    from keepstate_site.serve import OPTIONS

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)  # for every connection: one that does not read is soon seen
    config = uvicorn.Config("keepstate_site.asgi:application", **{**OPTIONS, "timeout_graceful_shutdown": 2})
    assert config.http is ConsoleProtocol
    site = uvicorn.Server(config)
    thread = threading.Thread(target=site.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until(lambda: site.started, 20, "the web server serves")
    host, port = listener.getsockname()
    yield f"{host}:{port}"
    site.should_exit = True
    thread.join(20)
    assert not thread.is_alive(), "the web server stops"


@pytest.fixture
def web(address_of_site: str, session: Session, owner: Tenant) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {owner.plain}", "X-KS-Protocol": "2"}
    with httpx.Client(base_url=f"http://{address_of_site}", headers=headers, timeout=120) as client:
        yield client


@pytest.fixture
def files(web: httpx.Client) -> str:
    return f"/api/v2/sessions/{SESSION}/files"
