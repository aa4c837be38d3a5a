"""The fake driver against the contract, and its own knobs."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.driver_suite import DriverSuite, lock_is_free
from tests.machine_kit import GUEST_SECONDS, assemble, run
from tests.support.waiting import until, until_gone
from workers.machine.driver import GuestImage, MachineError, MachineSpec, MachineState, SavedState
from workers.machine.fake.driver import FakeDriver
from workers.machine.fake.faults import FakeFaults
from workers.machine.fake.machine import FakeMachine


class TestFakeDriver(DriverSuite):
    etc = "etc"  # of the directory that its commands run in

    @pytest.fixture
    def faults(self) -> FakeFaults:
        return FakeFaults()

    @pytest.fixture
    def driver(self, faults: FakeFaults) -> FakeDriver:
        return FakeDriver(faults)

    @pytest.fixture
    def spec(self) -> MachineSpec:
        return MachineSpec("session", 8 << 20, 1)

    @pytest.fixture
    def image(self, tmp_path: Path) -> GuestImage:
        for name in ("kernel", "initrd"):
            (tmp_path / name).touch()
        return GuestImage("0" * 64, "fake", os.uname().machine, tmp_path / "kernel", tmp_path / "initrd", None, 0, "")

    def test_memory_and_device_state_of_different_moments_are_not_taken_for_one(self, driver, machine, capture, image, spec, tmp_path):
        run(machine, "echo one")
        first = assemble(capture(machine, "first"), image, tmp_path / "saved1")
        run(machine, "echo two")
        second = assemble(capture(machine, "second"), image, tmp_path / "saved2")
        machine.kill()
        with pytest.raises(MachineError) as refusal:
            driver.resume(tmp_path / "mixed", spec, image, SavedState(first.memory, None, second.devices), timeout_seconds=GUEST_SECONDS)
        assert refusal.value.code == "resume_failed"

    @pytest.mark.parametrize("step", ["stop", "devices", "disk", "pages"])
    def test_a_capture_that_fails_at_any_step_leaves_the_machine_running(self, machine, capture, faults, tmp_path, step):
        faults.capture_fails_at = step
        with pytest.raises(MachineError) as failure:
            capture(machine)
        assert failure.value.code == "capture_failed"
        assert machine.inspect().state is MachineState.RUNNING
        assert list((tmp_path / "staging").iterdir()) == []

    def test_a_full_disk_is_told_from_other_failures(self, machine, capture, faults):
        faults.no_space_at = "pages"
        with pytest.raises(MachineError) as failure:
            capture(machine)
        assert failure.value.code == "no_space"
        assert machine.inspect().state is MachineState.RUNNING

    def test_a_silent_guest_is_silent_while_its_machine_runs(self, machine, faults):
        faults.silent_guest = True
        with pytest.raises(MachineError) as failure:
            machine.ping(1)
        assert failure.value.code == "guest_silent"
        assert machine.inspect().state is MachineState.RUNNING

    def test_a_boot_that_fails_leaves_neither_process_nor_file(self, driver, faults, runtime, spec, image):
        faults.boot_fails = "fault asked for"
        with pytest.raises(MachineError) as failure:
            driver.boot(runtime, spec, image, timeout_seconds=10)
        assert failure.value.code == "boot_failed"
        assert not runtime.exists()

    def test_a_command_that_is_cancelled_before_it_has_begun_ends_as_soon_as_it_has(self, machine, monkeypatch):
        asked, ask = threading.Event(), FakeMachine._ask

        def late(self: FakeMachine, command: str, within: float, **arguments: object) -> dict[str, Any]:
            if command == "exec":
                assert asked.wait(30)
            answer = ask(self, command, within, **arguments)
            if command == "end":
                asked.set()
            return answer

        monkeypatch.setattr(FakeMachine, "_ask", late)
        assert machine.exec(["sleep", "60"], timeout_seconds=60, output_limit=100, cancelled=lambda: True).cancelled

    def test_a_command_that_runs_in_the_guest_ends_with_its_machine(self, machine, runtime):
        with ThreadPoolExecutor(1) as pool:
            command = pool.submit(machine.exec, ["sh", "-c", "echo $$ > pid; exec sleep 60"], timeout_seconds=60, output_limit=100)
            note = runtime / "guest" / "pid"
            until(lambda: note.exists() and note.read_text().strip(), 30, "the command has started")
            pid = int(note.read_text())
            machine.kill()
            assert lock_is_free(runtime)
            with pytest.raises(MachineError):
                command.result(GUEST_SECONDS)
        until_gone(pid, 30)
