"""A machine's network: the gateway's address and nothing else, the same after a save, a SIGKILL and a resume. Real machines."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.driver_suite import DriverSuite
from tests.machine_kit import BOOT_SECONDS, GUEST_SECONDS, assemble, run
from tests.support.networks import remove_networks
from tests.support.open_files import open_files
from workers.machine.driver import GuestImage, Machine, MachineSpec, SavedState
from workers.machine.network import namespace
from workers.machine.network.addresses import EGRESS_PORT, GATEWAY_ADDRESS, GATEWAY_PORT, MTU
from workers.machine.network.listen import listen_inside
from workers.machine.process.isolation import Isolation
from workers.machine.qemu.driver import QemuDriver

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(namespace.obstacle() is not None, reason="network namespaces need root and /dev/net/tun"),
]
SPEC = MachineSpec("session", 128 << 20, 1)
HELD = "held in a connection"
#: A connection that a program of the guest keeps open; what is written to /tmp/in goes into it, and /tmp/ended tells of its end.
HOLD = f"""
mkfifo /tmp/in
sleep 1000 > /tmp/in &
(nc {GATEWAY_ADDRESS} {GATEWAY_PORT} < /tmp/in > /tmp/out 2>&1; echo $? > /tmp/ended) &
until grep -q '{HELD}' /tmp/out 2>/dev/null; do usleep 20000; done
"""


def ask(machine: Machine, address: str = GATEWAY_ADDRESS, port: int = GATEWAY_PORT) -> str:
    """What a request of the guest is answered, or what its kernel says of it."""
    return run(machine, f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 30 {address} {port} 2>&1 | tail -n 1")


@contextmanager
def answering(net: Path, word: str) -> Iterator[None]:
    """Where the gateway will be: answers the first bytes of each connection with the word, and keeps it open for the word HELD."""
    kept: list[socket.socket] = []
    with listen_inside(net, GATEWAY_ADDRESS, GATEWAY_PORT) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                if word == HELD:
                    kept.append(connection)
                    connection.sendall(f"{word}\n".encode())
                    continue
                with connection:
                    connection.recv(4096)
                    connection.sendall(f"HTTP/1.0 200 OK\r\n\r\n{word}\n".encode())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in kept:
                connection.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("network")
    yield directory
    DriverSuite.end(QemuDriver(directory / "proofs"), directory)
    remove_networks(directory)


@pytest.fixture(scope="module")
def driver(place: Path) -> QemuDriver:
    return QemuDriver(place / "proofs", networks=place / "net")


@pytest.fixture(scope="module")
def machine(driver: QemuDriver, place: Path, tiny_image: GuestImage) -> Machine:
    return driver.boot(place / "first", SPEC, tiny_image, timeout_seconds=BOOT_SECONDS)


@pytest.fixture(scope="module")
def saved(machine: Machine, place: Path, tiny_image: GuestImage) -> SavedState:
    """With a connection open, and nothing left of the machine that had it."""
    (place / "staging").mkdir()
    with answering(place / "net" / "first", HELD):
        run(machine, HOLD)
        state = assemble(machine.capture(place / "staging"), tiny_image, place / "saved")
        machine.kill()
    namespace.remove(place / "net" / "first")
    return state


@pytest.fixture(scope="module")
def resume(place: Path, tiny_image: GuestImage, saved: SavedState) -> Callable[..., Machine]:
    def start(name: str, networks: Path | None = place / "net") -> Machine:
        machine = QemuDriver(place / "proofs", networks=networks).resume(
            place / name, SPEC, tiny_image, saved, timeout_seconds=GUEST_SECONDS
        )
        machine.run()
        machine.greet(GUEST_SECONDS)
        return machine

    return start


@pytest.fixture(scope="module")
def one(resume: Callable[..., Machine]) -> Machine:
    return resume("one")


def test_a_request_of_the_guest_reaches_who_listens_inside_and_is_answered(machine: Machine, place: Path) -> None:
    with answering(place / "net" / "first", "the first is heard"):
        assert ask(machine) == "the first is heard"
        assert run(machine, "cat /sys/class/net/eth0/mtu") == str(MTU)


def test_nothing_else_can_be_reached_not_the_hosts_loopback_nor_its_other_addresses(machine: Machine) -> None:
    with socket.create_server(("0.0.0.0", 0)) as outside:
        port = outside.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            pass  # it is there to be reached
        said = {
            "another port": ask(machine, port=port),
            "the port of the egress": ask(machine, port=EGRESS_PORT),
            "the guest's own loopback": ask(machine, "127.0.0.1", port),
            "an address of its own network": ask(machine, "10.0.2.3", port),
            "an address of the world": ask(machine, "192.0.2.1", port),
        }
    assert {name: word for name, word in said.items() if not any(end in word for end in ("refused", "unreachable"))} == {}


@pytest.mark.skipif(not Isolation().wanted(), reason="isolating a machine needs root and its capabilities")
def test_its_hypervisor_runs_in_no_network_and_has_the_tap_and_no_other_device(machine: Machine) -> None:
    pid = machine.inspect().pid
    assert pid is not None
    assert open_files(pid).count("/dev/net/tun") == 1
    spaces = {os.stat(f"/proc/{who}/ns/net").st_ino for who in (pid, "self")} | {(machine.runtime.parent / "net" / "first").stat().st_ino}
    assert len(spaces) == 3, "the machine's network, its process's own, and the host's are three"


def test_a_resumed_guest_reaches_a_new_listener_and_its_old_connection_is_reset_at_once(one: Machine, place: Path) -> None:
    with answering(place / "net" / "one", "heard again"):
        assert ask(one) == "heard again"
        assert run(one, "ls /tmp") == "in\nout", "its program still waits for the connection of before"
        run(one, "set -e; echo more > /tmp/in; n=0; until [ -e /tmp/ended ]; do [ $n -lt 500 ]; n=$((n+1)); usleep 20000; done")


def test_two_machines_of_one_moment_have_the_same_addresses_and_each_its_own_listener(
    one: Machine, resume: Callable[..., Machine], place: Path
) -> None:
    two = resume("two")
    with answering(place / "net" / "one", "for one"), answering(place / "net" / "two", "for two"):
        assert (ask(one), ask(two)) == ("for one", "for two")
    namespace.remove(place / "net" / "two")
    two.kill()


def test_a_host_that_has_no_network_to_give_resumes_the_machine_all_the_same(resume: Callable[..., Machine], place: Path) -> None:
    alone = resume("alone", None)
    assert "10.0.2.15" in run(alone, "ip addr show eth0")
    assert not (place / "net" / "alone").exists()
    alone.kill()


def test_a_machine_of_before_there_was_a_network_is_saved_and_resumed_as_it_was(
    driver: QemuDriver, place: Path, tiny_image: GuestImage
) -> None:
    older = replace(SPEC, network=False)
    machine = driver.boot(place / "older", older, tiny_image, timeout_seconds=BOOT_SECONDS)
    run(machine, "echo kept > note; [ ! -e /sys/class/net/eth0 ]")
    (place / "older-staging").mkdir()
    state = assemble(machine.capture(place / "older-staging"), tiny_image, place / "older-saved")
    machine.kill()
    again = driver.resume(place / "older-again", older, tiny_image, state, timeout_seconds=GUEST_SECONDS)
    again.run()
    again.greet(GUEST_SECONDS)
    assert run(again, "cat note; ls /sys/class/net") == "kept\nlo"
    assert not list((place / "net").glob("older*"))
    again.kill()
