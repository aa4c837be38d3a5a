"""Networks of machines without machines: made, listened in, removed, swept; real namespaces of the kernel."""

import fcntl
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.networks import held_below, remove_networks
from workers.machine.driver import MachineError
from workers.machine.network import doorbell, namespace
from workers.machine.network.addresses import GATEWAY_ADDRESS, GATEWAY_MAC, GATEWAY_PORT, GUEST_ADDRESS, GUEST_MAC
from workers.machine.network.listen import listen_inside
from workers.machine.process import libc
from workers.machine.process.isolation import Isolation
from workers.machine.process.threads import apart
from workers.machine.qemu.start import starting

pytestmark = pytest.mark.skipif(namespace.obstacle() is not None, reason="network namespaces need root and /dev/net/tun")
SIOCGIFHWADDR = 0x8927
T = TypeVar("T")


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "net" / "session.1"
    remove_networks(tmp_path)


@pytest.fixture
def made(net: Path) -> Iterator[Path]:
    tap = namespace.make(net)
    yield net
    os.close(tap)


def within(net: Path, act: Callable[[], T]) -> T:
    def enter() -> T:
        with open(net, "rb") as file:
            libc.setns(file.fileno(), libc.CLONE_NEWNET)
        return act()

    return apart(enter)


def read(name: str) -> str:
    return Path(name).read_text().strip()


def hardware_address() -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        return bytes(fcntl.ioctl(asked, SIOCGIFHWADDR, struct.pack("40s", b"guest0"))[18:24])


def test_it_has_a_loopback_and_a_tap_and_no_way_out(made: Path) -> None:
    assert within(made, lambda: {name for _, name in socket.if_nameindex()}) == {"lo", "guest0"}
    routes = within(made, lambda: Path("/proc/thread-self/net/route").read_text().splitlines()[1:])
    assert [line.split()[:3] for line in routes] == [["guest0", "0002000A", "00000000"]], "its own network, by no gateway"
    assert within(made, lambda: read("/proc/sys/net/ipv4/ip_forward")) == "0"


def test_both_ends_are_the_same_in_every_one_so_that_a_saved_guest_finds_what_it_remembers(made: Path) -> None:
    neighbours = within(made, lambda: Path("/proc/thread-self/net/arp").read_text().splitlines()[1:])
    assert [line.split() for line in neighbours] == [[GUEST_ADDRESS, "0x1", "0x6", GUEST_MAC, "*", "guest0"]]
    assert within(made, hardware_address) == bytes.fromhex(GATEWAY_MAC.replace(":", ""))
    other = made.with_name("session.2")
    os.close(namespace.make(other))  # its device goes with the descriptor
    tap = namespace.make(other)
    try:
        assert within(other, lambda: {name for _, name in socket.if_nameindex()}) == {"lo", "guest0"}
        assert os.stat(made).st_ino != os.stat(other).st_ino
    finally:
        os.close(tap)


def test_ipv6_is_off_so_that_an_idle_machine_hears_nothing(made: Path) -> None:
    if not Path("/proc/sys/net/ipv6").exists():
        pytest.skip("this kernel has no IPv6")
    assert within(made, lambda: read("/proc/sys/net/ipv6/conf/guest0/disable_ipv6")) == "1"


def test_the_thread_that_made_it_and_the_one_that_listened_leave_this_process_where_it_was(made: Path) -> None:
    before = os.stat("/proc/thread-self/ns/net").st_ino
    with listen_inside(made, GATEWAY_ADDRESS, GATEWAY_PORT) as listener:
        assert listener.getsockname() == (GATEWAY_ADDRESS, GATEWAY_PORT)
        assert os.stat("/proc/thread-self/ns/net").st_ino == before != os.stat(made).st_ino


def test_a_connection_that_nobody_waits_for_is_refused_at_once(made: Path) -> None:
    with pytest.raises(ConnectionRefusedError):
        within(made, lambda: socket.create_connection((GATEWAY_ADDRESS, GATEWAY_PORT), 5))


def test_a_file_that_no_namespace_is_mounted_on_is_no_network(net: Path) -> None:
    net.parent.mkdir()
    net.touch()
    with pytest.raises(OSError, match="setns"):
        listen_inside(net, GATEWAY_ADDRESS, GATEWAY_PORT)


@pytest.mark.parametrize("left", ["nothing", "a plain file", "a namespace"])
def test_it_is_made_anew_whatever_an_earlier_one_left(net: Path, left: str) -> None:
    if left == "a namespace":
        os.close(namespace.make(net))
    elif left == "a plain file":
        net.parent.mkdir()
        net.touch()
    os.close(namespace.make(net))
    assert held_below(net.parent) == [net.resolve()]


def test_removing_it_leaves_no_file_and_no_mount_and_may_be_repeated(made: Path) -> None:
    namespace.remove(made)
    namespace.remove(made)
    assert not list(made.parent.iterdir())
    assert held_below(made.parent) == []


def test_one_that_cannot_be_made_leaves_nothing(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.machine.network.tap.CLONE_DEVICE", "/dev/net/absent")
    with pytest.raises(FileNotFoundError):
        namespace.make(net)
    assert not list(net.parent.iterdir())


def test_a_start_that_fails_takes_its_network_with_it(net: Path, tmp_path: Path) -> None:
    held: list[Path] = []

    def fail_later() -> None:
        with starting(tmp_path / "session.1", "boot_failed", Isolation("off")) as start:
            assert start.connect(net.parent).startswith("tap,")
            held.extend(held_below(net.parent))
            raise OSError("something later fails")

    with pytest.raises(MachineError):
        fail_later()
    assert held == [net.resolve()]
    assert not list(net.parent.iterdir())


def test_left_over_is_what_has_no_runtime_directory(made: Path, tmp_path: Path) -> None:
    machines = tmp_path / "machines"
    (machines / "session.1").mkdir(parents=True)
    (made.parent / "session.0").touch()  # as a restart of the host leaves it
    assert list(namespace.leftovers(made.parent, machines)) == [made.parent / "session.0"]


def test_the_gateways_doorbell_is_rung_with_the_name_when_one_comes_and_when_it_goes(net: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gateway:
        directory = os.open(net.parent.parent, os.O_PATH)
        gateway.bind(f"/proc/self/fd/{directory}/{doorbell.SOCKET_NAME}")
        os.close(directory)
        gateway.setblocking(False)
        os.close(namespace.make(net))
        assert gateway.recv(100) == b"session.1"
        namespace.remove(net)
        assert gateway.recv(100) == b"session.1"
        namespace.remove(net)
        with pytest.raises(BlockingIOError):
            gateway.recv(100)


def test_a_doorbell_that_nobody_answers_makes_nobody_wait(net: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gateway:
        gateway.bind(str(net.parent.parent / doorbell.SOCKET_NAME))
        for _ in range(2000):  # more than its queue has room for
            doorbell.ring(net)
