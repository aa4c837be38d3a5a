"""arm64 machines on a real QEMU: what differs from x86-64 is data, so one machine shows that the same driver holds its contract.

One boot and one save for the whole module; the tests that change the guest work on machines that were resumed from that save.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.driver_suite import DriverSuite, lock_is_free
from tests.machine_kit import BOOT_SECONDS, GUEST_SECONDS, assemble, run
from workers.machine.driver import GuestImage, Machine, MachineError, MachineSpec, MachineState, SavedState
from workers.machine.qemu.driver import QemuDriver

pytestmark = pytest.mark.vm
SPEC = MachineSpec("session", 128 << 20, 2)
COUNT = "n=0; while :; do n=$((n+1)); echo $n > /tmp/m; mv /tmp/m /tmp/n; usleep 1000; done"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arm64")


@pytest.fixture(scope="module")
def driver(place: Path) -> QemuDriver:
    return QemuDriver(place / "proofs")


@pytest.fixture(scope="module")
def machine(driver: QemuDriver, place: Path, arm64_image: GuestImage) -> Iterator[Machine]:
    yield driver.boot(place / "machine", SPEC, arm64_image, timeout_seconds=BOOT_SECONDS)
    DriverSuite.end(driver, place)


@pytest.fixture(scope="module")
def counted(machine: Machine) -> int:
    """How far a program in the guest had come before the save; the guest's clock is wrong by then."""
    run(machine, f"date -s '2001-01-01 00:00:00' >/dev/null; sh -c '{COUNT}' >/dev/null 2>&1 & until [ -e /tmp/n ]; do :; done")
    return int(run(machine, "cat /tmp/n"))


@pytest.fixture(scope="module")
def saved(machine: Machine, counted: int, place: Path, arm64_image: GuestImage) -> SavedState:
    (place / "staging").mkdir()
    return assemble(machine.capture(place / "staging"), arm64_image, place / "saved")


@pytest.fixture
def resume(driver: QemuDriver, tmp_path: Path, arm64_image: GuestImage, saved: SavedState) -> Iterator[Callable[[str], Machine]]:
    def start(name: str) -> Machine:
        resumed = driver.resume(tmp_path / name, SPEC, arm64_image, saved, timeout_seconds=GUEST_SECONDS)
        assert resumed.inspect().state is MachineState.PAUSED
        resumed.run()
        resumed.greet(GUEST_SECONDS)
        return resumed

    yield start
    DriverSuite.end(driver, tmp_path)


def test_the_guest_is_an_arm64_one_and_has_its_processors(machine: Machine) -> None:
    assert run(machine, "uname -m; nproc") == "aarch64\n2"


def test_a_command_returns_its_streams_and_its_exit_code(machine: Machine) -> None:
    result = machine.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_seconds=30, output_limit=1000)
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3)


def test_the_guest_takes_fresh_bytes_into_its_generator_at_once(machine: Machine) -> None:
    assert run(machine, "head -c 64 /dev/urandom | /usr/lib/keepstate/seed; echo $?") == "0"
    assert run(machine, "/usr/lib/keepstate/seed </dev/null; echo $?") == "3"


def test_the_captured_machine_itself_runs_on(machine: Machine, counted: int, saved: SavedState) -> None:
    assert int(run(machine, f"until [ $(cat /tmp/n) -gt {counted + 10} ]; do :; done; cat /tmp/n")) > counted


def test_a_resumed_machine_goes_on_where_it_was_with_the_hosts_time(resume: Callable[[str], Machine], counted: int) -> None:
    resumed = resume("resumed")
    first = int(run(resumed, "cat /tmp/n"))
    later = int(run(resumed, f"until [ $(cat /tmp/n) -gt {first + 10} ]; do :; done; cat /tmp/n"))
    assert counted <= first < later
    assert abs(int(run(resumed, "date +%s")) - time.time()) < 60


def test_a_resumed_machine_can_be_captured_and_resumed_again(
    resume: Callable[[str], Machine], driver: QemuDriver, tmp_path: Path, arm64_image: GuestImage
) -> None:
    first = resume("first")
    run(first, "echo two > note")
    (tmp_path / "staging").mkdir()
    again = assemble(first.capture(tmp_path / "staging"), arm64_image, tmp_path / "again")
    first.kill()
    second = driver.resume(tmp_path / "second", SPEC, arm64_image, again, timeout_seconds=GUEST_SECONDS)
    second.run()
    second.greet(GUEST_SECONDS)
    assert run(second, "cat note") == "two"


def test_another_worker_finds_the_machine_and_its_death_leaves_nothing(resume: Callable[[str], Machine], driver: QemuDriver) -> None:
    resumed = resume("adopted")
    pid = resumed.inspect().pid
    adopted = driver.attach(resumed.runtime)
    assert adopted is not None
    assert adopted.inspect() == resumed.inspect()
    adopted.kill()
    assert lock_is_free(resumed.runtime)
    assert not os.path.exists(f"/proc/{pid}")
    assert driver.attach(resumed.runtime) is None


def test_a_guest_that_powers_off_is_dead_with_its_reason(resume: Callable[[str], Machine]) -> None:
    resumed = resume("off")
    with pytest.raises(MachineError) as failure:
        resumed.exec(["sh", "-c", "echo o > /proc/sysrq-trigger; sleep 30"], timeout_seconds=60, output_limit=100)
    assert failure.value.code == "machine_dead"
    assert "shut down" in str(resumed.inspect().reason)


def test_a_damaged_device_state_is_refused_and_leaves_nothing(
    driver: QemuDriver, tmp_path: Path, arm64_image: GuestImage, saved: SavedState
) -> None:
    damaged = tmp_path / "devices"
    damaged.write_bytes(b"no device state at all" * 100)
    broken = SavedState(saved.memory, saved.disk, damaged)
    with pytest.raises(MachineError) as failure:
        driver.resume(tmp_path / "resumed", SPEC, arm64_image, broken, timeout_seconds=GUEST_SECONDS)
    assert failure.value.code == "resume_failed"
    assert not (tmp_path / "resumed").exists()
