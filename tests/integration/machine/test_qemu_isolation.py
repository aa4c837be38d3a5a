"""What a real QEMU process of ours can reach and use up: seen in /proc, asked of QEMU itself, and tried by its guest."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.driver_suite import DriverSuite
from tests.machine_kit import BOOT_SECONDS, GUEST_SECONDS, assemble, run
from workers.machine.driver import GuestImage, Machine, MachineError, MachineSpec, MachineState
from workers.machine.process.isolation import Isolation
from workers.machine.qemu.argv import CONSOLE_BYTES, INSPECTION_SOCKET
from workers.machine.qemu.driver import QemuDriver
from workers.machine.qemu.monitor import Monitor, MonitorError

pytestmark = pytest.mark.vm
ISOLATED = Isolation().wanted()
needs_root = pytest.mark.skipif(not ISOLATED, reason="isolating a machine needs root and its capabilities")
#: Takes the agent's port for itself and writes to it, and to the console, without end.
FLOOD = """
for n in /sys/class/virtio-ports/*/name; do read -r f < $n; [ $f = org.qemu.guest_agent.0 ] && p=${n%/name}; done
(sleep 0.3; while :; do kill -9 $(pidof qemu-ga); cat /dev/urandom > /dev/${p##*/}; done) >/dev/null 2>&1 </dev/null &
(while :; do cat /dev/urandom > /dev/console; done) >/dev/null 2>&1 </dev/null &
"""
SPEC = MachineSpec("session", 128 << 20, 1)


@contextmanager
def small_disk(directory: Path, mib: int) -> Iterator[Path]:
    """A filesystem on a disk, where a file's holes take no room, as they do in tmpfs."""
    image = directory.with_suffix(".ext4")
    directory.mkdir()
    with open(image, "wb") as file:
        file.truncate(mib << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, directory], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small filesystem needs root and loop devices")
    try:
        yield directory
    finally:
        subprocess.run(["umount", directory], check=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("isolation")
    yield directory
    DriverSuite.end(QemuDriver(directory / "proofs"), directory)


@pytest.fixture(scope="module")
def driver(place: Path) -> QemuDriver:
    return QemuDriver(place / "proofs")


@pytest.fixture(scope="module")
def machine(driver: QemuDriver, place: Path, tiny_image: GuestImage) -> Machine:
    return driver.boot(place / "one", SPEC, tiny_image, timeout_seconds=BOOT_SECONDS)


@pytest.fixture(scope="module")
def resumed(driver: QemuDriver, place: Path, machine: Machine, tiny_image: GuestImage) -> Machine:
    """A second machine, from what the first was saved as."""
    (place / "staging").mkdir()
    saved = assemble(machine.capture(place / "staging"), tiny_image, place / "saved")
    second = driver.resume(place / "two", SPEC, tiny_image, saved, timeout_seconds=GUEST_SECONDS)
    second.run()
    second.greet(GUEST_SECONDS)
    return second


def pid_of(machine: Machine) -> int:
    pid = machine.inspect().pid
    assert pid is not None
    return pid


def status(machine: Machine) -> dict[str, str]:
    lines = Path(f"/proc/{pid_of(machine)}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_the_sandbox_filters_system_calls_and_no_privilege_can_be_gained(machine: Machine) -> None:
    seen = status(machine)
    assert (seen["Seccomp"], seen["NoNewPrivs"]) == ("2", "1")


def test_there_is_no_core_file_and_no_file_without_bound(machine: Machine) -> None:
    limits = {line[:26].strip(): line[26:].split()[0] for line in Path(f"/proc/{pid_of(machine)}/limits").read_text().splitlines()}
    assert (limits["Max core file size"], int(limits["Max file size"])) == ("0", 256 << 20)


@needs_root
def test_each_machine_is_an_unprivileged_user_of_its_own(machine: Machine, resumed: Machine) -> None:
    users = {status(one)["Uid"] for one in (machine, resumed)}
    assert len(users) == 2
    assert all(int(word) >= 1000 for user in users for word in user.split())
    assert {status(one)["CapEff"] for one in (machine, resumed)} == {"0" * 16}
    assert {status(one)["Groups"] for one in (machine, resumed)} == {""}


@needs_root
def test_qemu_itself_cannot_open_the_hosts_files_nor_another_machines(machine: Machine, resumed: Machine, place: Path) -> None:
    there = [Path("/etc/shadow"), Path("/etc/passwd"), place / "two" / "machine.json", place / "two" / "memory.img", place / "proofs.x"]
    there[-1].write_text("the worker's own")
    with Monitor(machine.runtime, INSPECTION_SOCKET) as monitor:
        for path in there:
            with pytest.raises(MonitorError, match="No such file"):
                monitor.call("blockdev-add", {"driver": "file", "node-name": "probe", "filename": str(path), "read-only": True})
        with pytest.raises(MonitorError, match=r"Permission denied|Could not open"):
            monitor.call("blockdev-add", {"driver": "file", "node-name": "probe", "filename": str(machine.runtime / "machine.json")})


@needs_root
def test_its_root_holds_its_own_directory_and_no_other_machines(machine: Machine, resumed: Machine, place: Path) -> None:
    root = Path(f"/proc/{pid_of(machine)}/root")
    assert not {"etc/shadow", "home", "root", "proc", "sys"} & {str(path.relative_to(root)) for path in root.glob("*")}
    assert {path.name for path in (root / str(place)[1:]).iterdir()} == {"one"}


@needs_root
def test_neither_its_root_nor_the_names_in_its_directory_can_be_changed(machine: Machine) -> None:
    mounts = [line.split() for line in Path(f"/proc/{pid_of(machine)}/mountinfo").read_text().splitlines()]
    assert next(fields[5] for fields in mounts if fields[4] == "/").startswith("ro")
    directory = machine.runtime.stat()
    assert (directory.st_uid, directory.st_mode & 0o777) == (0, 0o710)


@needs_root
def test_it_has_no_network_not_even_the_hosts_loopback(machine: Machine) -> None:
    assert os.readlink(f"/proc/{pid_of(machine)}/ns/net") != os.readlink("/proc/self/ns/net")


@needs_root
def test_the_memory_image_of_a_resume_is_no_more_than_this_qemu_needs(resumed: Machine, place: Path) -> None:
    """QEMU before 8.2 opens it for writing, and ends at once if it may not: then it is writable, and verified before each use."""
    assert str(place / "saved" / "memory.img") in Path(f"/proc/{pid_of(resumed)}/maps").read_text()
    mode = (place / "saved" / "memory.img").stat().st_mode & 0o777
    from workers.machine.qemu.binary import find_qemu

    assert mode & 0o222 == (0o200 if find_qemu("x86_64").private_readonly_memory else 0o222)


def ping_again_and_again(machine: Machine) -> None:
    for _ in range(100):
        machine.ping(3)


def test_a_guest_that_floods_its_channels_is_silent_and_harms_nobody(driver: QemuDriver, place: Path, tiny_image: GuestImage) -> None:
    machine = driver.boot(place / "flood", SPEC, tiny_image, timeout_seconds=BOOT_SECONDS)
    run(machine, FLOOD)
    with pytest.raises(MachineError) as failure:
        ping_again_and_again(machine)
    assert failure.value.code == "guest_silent"
    assert machine.inspect().state is MachineState.RUNNING
    (place / "flood-staging").mkdir()
    machine.capture(place / "flood-staging")
    assert machine.inspect().state is MachineState.RUNNING
    assert all(path.stat().st_blocks * 512 <= CONSOLE_BYTES for path in machine.runtime.iterdir() if path.name != "memory.img")
    machine.kill()


def test_a_full_host_disk_is_the_guests_error_and_never_a_silent_stop(place: Path, driver: QemuDriver, python_image: GuestImage) -> None:
    with small_disk(place / "small", mib=20) as small:
        machine = driver.boot(small / "machine", MachineSpec("session", 256 << 20, 1), python_image, timeout_seconds=BOOT_SECONDS)
        try:
            script = "head -c 24000000 /dev/urandom > /root/fill; sync; dmesg | grep -c 'I/O error'"
            wrote = machine.exec(["sh", "-c", script], timeout_seconds=120, output_limit=4096)
            assert int(wrote.stdout.split()[-1]) > 0, wrote
            assert machine.inspect().state is MachineState.RUNNING
            (place / "full-staging").mkdir()
            with pytest.raises(MachineError) as failure:
                machine.capture(place / "full-staging")
            assert failure.value.code == "no_space"
            assert list((place / "full-staging").iterdir()) == []
            assert run(machine, "echo goes on") == "goes on"
        finally:
            machine.kill()
