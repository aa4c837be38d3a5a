"""The QEMU driver against the contract with the tiny image, and what only a real machine can show."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.driver_suite import DriverSuite
from tests.machine_kit import BOOT_SECONDS, GUEST_SECONDS, assemble, run
from tests.support.open_files import open_files
from workers.machine.driver import Ending, GuestIdentity, GuestImage, Machine, MachineError, MachineSpec, MachineState, SavedState
from workers.machine.qemu.argv import OPERATIONS_SOCKET
from workers.machine.qemu.disk import add_next_overlay, live_overlays
from workers.machine.qemu.driver import QemuDriver
from workers.machine.qemu.extents import allocated_extents
from workers.machine.qemu.monitor import Monitor

pytestmark = pytest.mark.vm
DISK_SPEC = MachineSpec("session", 512 << 20, 1)
NO_SECOND_FILE = "size=600m,nr_inodes=2"  # room for the pages' file, none for the device state's

COUNTER = """
import itertools, os, time
for n in itertools.count():
    with open("/tmp/n.new", "w") as file:
        file.write(str(n))
    os.replace("/tmp/n.new", "/tmp/n")
    time.sleep(0.005)
"""


@contextmanager
def small_filesystem(directory: Path, options: str) -> Iterator[Path]:
    directory.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", directory], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small filesystem needs root")
    try:
        yield directory
    finally:
        subprocess.run(["umount", directory], check=True)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> QemuDriver:
    return QemuDriver(tmp_path_factory.mktemp("host") / "proofs")


def booted_moment(driver: QemuDriver, spec: MachineSpec, image: GuestImage, directory: Path) -> SavedState:
    """A machine that has just booted, saved: a resume of it takes a tenth of a boot."""
    machine = driver.boot(directory / "machine", spec, image, timeout_seconds=BOOT_SECONDS)
    try:
        (directory / "staging").mkdir()
        return assemble(machine.capture(directory / "staging"), image, directory / "saved")
    finally:
        machine.kill()


def resumed(driver: QemuDriver, runtime: Path, spec: MachineSpec, image: GuestImage, saved: SavedState) -> Machine:
    machine = driver.resume(runtime, spec, image, saved, timeout_seconds=GUEST_SECONDS)
    machine.run()
    machine.greet(GUEST_SECONDS)
    return machine


class TestQemuDriver(DriverSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def spec(cls) -> MachineSpec:
        return MachineSpec("session", 128 << 20, 1)

    @pytest.fixture(scope="class")
    @classmethod
    def image(cls, tiny_image: GuestImage) -> GuestImage:
        return tiny_image

    @pytest.fixture(scope="class")
    @classmethod
    def moment(cls, driver, spec, image, tmp_path_factory) -> SavedState:
        return booted_moment(driver, spec, image, tmp_path_factory.mktemp("booted"))

    @pytest.fixture
    def machine(self, driver, runtime, spec, image, moment) -> Machine:
        return resumed(driver, runtime, spec, image, moment)

    def test_a_guest_answers_to_the_name_it_was_given_wherever_it_is_written(self, machine, capture, resume, image, tmp_path):
        run(machine, "mkdir -p /var/lib/dbus; echo old > /var/lib/dbus/machine-id; echo '127.0.0.1 localhost' > /etc/hosts")
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        machines = [resume(saved, name, GuestIdentity(name[0] * 32, name)) for name in ("ada", "bob")]
        assert [run(each, "hostname; cat /var/lib/dbus/machine-id; tail -n 1 /etc/hosts") for each in machines] == [
            f"ada\n{'a' * 32}\n127.0.0.1 ada",
            f"bob\n{'b' * 32}\n127.0.0.1 bob",
        ]

    def test_a_clock_that_was_hours_behind_at_the_save_is_right_after_the_resume(self, driver, machine, capture, spec, image, tmp_path):
        run(machine, f"date -s @{int(time.time()) - 16 * 3600}")
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        later = driver.resume(tmp_path / "later", spec, image, saved, timeout_seconds=GUEST_SECONDS)
        later.run()
        later.greet(GUEST_SECONDS)()
        before, seen, after = time.time(), int(run(later, "date +%s")), time.time()
        assert before - 1 <= seen + 1  # whole seconds: what it says is up to one too early
        assert seen <= after + 1

    def test_a_guest_that_cannot_write_its_identity_is_told_of(self, machine, capture, resume, image, tmp_path):
        run(machine, "mkdir -p /etc/machine-id")  # a directory where the file should be
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        with pytest.raises(MachineError, match="did not take its identity") as failure:
            resume(saved, "child", GuestIdentity("a" * 32, "ada"))
        assert failure.value.code == "exec_failed"

    def test_a_guest_that_powers_off_is_dead_with_its_reason_until_it_is_killed(self, machine):
        with pytest.raises(MachineError) as failure:
            machine.exec(["sh", "-c", "echo o > /proc/sysrq-trigger; sleep 30"], timeout_seconds=60, output_limit=100)
        assert failure.value.code == "machine_dead"
        status = machine.inspect()
        assert status.state is MachineState.DEAD
        assert "shut down" in status.reason
        assert status.ending is Ending.GUEST_SHUTDOWN
        machine.kill()
        assert machine.inspect().pid is None

    def test_a_guest_whose_kernel_panics_is_dead_and_its_console_says_why(self, machine):
        with pytest.raises(MachineError) as failure:
            machine.exec(["sh", "-c", "echo c > /proc/sysrq-trigger; sleep 30"], timeout_seconds=60, output_limit=100)
        assert failure.value.code == "machine_dead"
        first = machine.inspect()
        assert first.state is MachineState.DEAD
        assert "panic" in first.reason.lower()
        assert first.ending is Ending.GUEST_PANICKED
        assert machine.inspect().reason == first.reason

    def test_a_kernel_that_cannot_boot_fails_at_once_with_the_consoles_end_and_leaves_nothing(self, driver, runtime, spec, image, tmp_path):
        (tmp_path / "empty").touch()
        broken = replace(image, initrd=tmp_path / "empty", command_line=image.command_line + " root=/dev/none")
        with pytest.raises(MachineError) as failure:
            driver.boot(runtime, spec, broken, timeout_seconds=BOOT_SECONDS)
        assert failure.value.code == "boot_failed"
        assert "panic" in str(failure.value).lower()
        assert not runtime.exists()

    def test_a_full_staging_disk_is_no_space_and_nothing_is_left_there(self, machine, tmp_path):
        with small_filesystem(tmp_path / "small", "size=1m") as staging:
            with pytest.raises(MachineError) as failure:
                machine.capture(staging)
            assert failure.value.code == "no_space"
            assert list(staging.iterdir()) == []
        machine.ping(GUEST_SECONDS)

    def test_a_disk_that_is_full_after_the_stop_is_no_space_and_the_machine_runs_on(self, machine, tmp_path):
        with small_filesystem(tmp_path / "small", NO_SECOND_FILE) as staging:
            with pytest.raises(MachineError) as failure:
                machine.capture(staging)
            assert failure.value.code == "no_space"
            assert list(staging.iterdir()) == []
        assert machine.inspect().state is MachineState.RUNNING
        machine.ping(GUEST_SECONDS)

    def test_a_resumed_guest_has_the_hosts_time(self, machine, capture, resume, image, tmp_path):
        run(machine, "date -s '2001-01-01 00:00:00' >/dev/null")
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        assert abs(int(run(resume(saved), "date +%s")) - time.time()) < 60

    def test_a_process_in_the_guest_goes_on_where_it_was(self, machine, capture, resume, image, tmp_path):
        count = "n=0; while :; do n=$((n+1)); echo $n > /tmp/m; mv /tmp/m /tmp/n; usleep 1000; done"
        run(machine, f"sh -c '{count}' >/dev/null 2>&1 & until [ -e /tmp/n ]; do :; done")
        at_capture = int(run(machine, "cat /tmp/n"))
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        resumed = resume(saved)
        first = int(run(resumed, "cat /tmp/n"))
        later = int(run(resumed, f"until [ $(cat /tmp/n) -gt {first + 10} ]; do :; done; cat /tmp/n"))
        assert at_capture <= first < later

    def test_a_console_that_is_printed_to_without_end_fills_no_file(self, machine, runtime):
        run(machine, "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done > /dev/console")
        assert max(path.stat().st_size for path in runtime.iterdir() if path.name != "memory.img") < 64 * 1024
        assert machine.inspect().state is MachineState.RUNNING

    def test_the_memory_image_of_a_booted_machine_stays_empty(self, booted, runtime):
        assert (runtime / "memory.img").stat().st_blocks == 0

    def test_the_hypervisor_has_its_own_session_and_no_descriptor_of_ours_but_the_lock(self, booted, runtime):
        pid = booted.inspect().pid
        assert os.getsid(pid) == pid
        ignored = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn:"))
        assert int(ignored.split()[1], 16) & 1 << (signal.SIGPIPE - 1)  # nobody reads its errors once it has started
        files = open_files(pid)
        assert str((runtime / "alive.lock").resolve()) in files
        assert not any("pytest" in name and not name.startswith(str(runtime.resolve())) for name in files)

    def test_a_machine_whose_spawner_died_before_it_noted_the_process_is_still_found_and_killed(self, driver, machine, runtime):
        record = json.loads((runtime / "machine.json").read_text())
        pid = record.pop("process")["pid"]
        (runtime / "machine.json").write_text(json.dumps(record))
        adopted = driver.attach(runtime)
        assert adopted.inspect().pid == pid
        adopted.kill()
        assert driver.attach(runtime) is None

    def test_several_processors_and_memory_beyond_the_32_bit_hole_are_saved_whole(self, driver, runtime, image, tmp_path, capture):
        spec = MachineSpec("session", 3072 << 20, 2)
        machine = driver.boot(runtime, spec, image, timeout_seconds=BOOT_SECONDS)
        run(machine, "head -c 30000000 /dev/urandom > /dev/shm/data; sha256sum /dev/shm/data > sum")
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        resumed = driver.resume(tmp_path / "large", spec, image, saved, timeout_seconds=GUEST_SECONDS)
        resumed.run()
        resumed.greet(GUEST_SECONDS)
        assert run(resumed, "nproc; sha256sum -c sum") == "2\n/dev/shm/data: OK"

    def test_the_accelerator_is_proved_by_a_boot_that_leaves_nothing_behind(self, tiny_image, tmp_path):
        driver = QemuDriver(tmp_path / "state" / "proofs", tiny_image)
        assert driver.accelerator("x86_64").name in ("kvm", "tcg")
        assert driver.pin_facts("x86_64")["accelerator"] == driver.accelerator("x86_64").name
        assert not list((tmp_path / "state").glob("proof-*"))


class TestQemuDisk:
    """The debian-python image: a machine with a disk."""

    @pytest.fixture(scope="class")
    @classmethod
    def moment(cls, driver, python_image, tmp_path_factory) -> SavedState:
        return booted_moment(driver, DISK_SPEC, python_image, tmp_path_factory.mktemp("booted"))

    @pytest.fixture
    def machine(self, driver, tmp_path, python_image, moment):
        self.spec, self.image, self.driver, self.directory = DISK_SPEC, python_image, driver, tmp_path
        yield resumed(driver, tmp_path / "machine", DISK_SPEC, python_image, moment)
        DriverSuite.end(driver, tmp_path)

    def save(self, machine, name):
        staging = self.directory / f"staging-{name}"
        staging.mkdir()
        capture = machine.capture(staging)
        return capture, assemble(capture, self.image, self.directory / f"saved-{name}")

    def resume(self, saved, name="resumed"):
        return resumed(self.driver, self.directory / name, self.spec, self.image, saved)

    def test_files_and_a_counting_process_go_on_after_sigkill_over_three_generations(self, machine):
        run(
            machine,
            f"cat > count.py <<'END'\n{COUNTER}\nEND\nnohup python3 count.py >/dev/null 2>&1 &\nuntil [ -e /tmp/n ]; do sleep 0.1; done",
        )
        run(machine, "head -c 3000000 /dev/urandom > data; sha256sum data > sum; sync")
        count = int(run(machine, "cat /tmp/n"))
        for generation in range(3):
            _, saved = self.save(machine, f"g{generation}")
            os.kill(machine.inspect().pid, signal.SIGKILL)
            machine.kill()
            machine = self.resume(saved, f"resumed{generation}")
            assert run(machine, "echo 3 > /proc/sys/vm/drop_caches; sha256sum -c sum") == "data: OK"
            run(machine, f"echo {generation} >> generations; sync")
            count = int(run(machine, f"until [ $(cat /tmp/n) -gt {count} ]; do sleep 0.05; done; cat /tmp/n"))
        assert run(machine, "echo 3 > /proc/sys/vm/drop_caches; cat generations").split() == ["0", "1", "2"]
        assert run(machine, "pgrep -fc '^python3 count.py'") == "1"

    def test_two_captures_in_a_row_hold_the_disk_of_two_moments(self, machine):
        run(machine, "head -c 1000000 /dev/urandom > a; sync")
        first, saved1 = self.save(machine, "1")
        run(machine, "head -c 1000000 /dev/urandom > b; rm a; sync")
        second, saved2 = self.save(machine, "2")
        assert [path.name for path in first.overlays] == ["overlay-0.qcow2"]
        assert [path.name for path in second.overlays] == ["overlay-0.qcow2", "overlay-1.qcow2"]
        machine.kill()
        assert run(self.resume(saved1, "r1"), "ls") == "a"
        assert run(self.resume(saved2, "r2"), "ls") == "b"

    def test_the_assembled_disk_reads_byte_for_byte_as_the_live_chain_did(self, machine):
        run(machine, "head -c 5000000 /dev/urandom > a; sync; rm -f /usr/share/doc/*/copyright; sync")
        capture, saved = self.save(machine, "1")
        machine.kill()
        top = capture.overlays[-1]
        subprocess.run(["qemu-img", "check", "-q", saved.disk], check=True)
        subprocess.run(["qemu-img", "compare", "-q", "-f", "qcow2", "-F", "qcow2", top, saved.disk], check=True)
        assert saved.disk.stat().st_size < 64 << 20

    def test_a_small_write_allocates_little_of_the_overlay(self, machine):
        run(machine, "sync")
        self.save(machine, "1")
        run(machine, "echo small > note; sync")
        second, _ = self.save(machine, "2")
        assert 0 < sum(extent.length for extent in allocated_extents(second.overlays[1])) < 1 << 20

    def test_a_capture_that_fails_leaves_the_disk_as_it_was_and_the_next_one_succeeds(self, machine):
        with small_filesystem(self.directory / "small", NO_SECOND_FILE) as staging, pytest.raises(MachineError):
            machine.capture(staging)
        assert sorted(path.name for path in (self.directory / "machine").glob("overlay-*")) == ["overlay-0.qcow2"]
        run(machine, "echo kept > note; sync")
        capture, saved = self.save(machine, "1")
        assert len(capture.overlays) == 1
        machine.kill()
        assert run(self.resume(saved), "cat note") == "kept"

    def test_an_overlay_that_a_dead_capture_had_prepared_is_taken_away(self, machine):
        runtime = self.directory / "machine"
        with Monitor(runtime, OPERATIONS_SOCKET) as monitor:
            add_next_overlay(monitor, runtime, self.image.disk_bytes, live_overlays(monitor, runtime))
        capture, _ = self.save(machine, "1")
        assert [path.name for path in capture.overlays] == ["overlay-0.qcow2"]
        assert sorted(path.name for path in runtime.glob("overlay-*")) == ["overlay-0.qcow2", "overlay-1.qcow2"]
