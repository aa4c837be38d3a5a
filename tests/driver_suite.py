"""What every machine driver must do (workers/machine/driver.py), in tests that know no hypervisor.

A test module inherits DriverSuite and gives the fixtures `driver`, `image`, `spec`; this file's own fixtures end what a test started.
"""

import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.driver_exec_suite import ExecSuite
from tests.machine_kit import BOOT_SECONDS, GUEST_SECONDS, assemble, run
from workers.machine.driver import (
    Capture,
    GuestIdentity,
    GuestImage,
    Machine,
    MachineDriver,
    MachineError,
    MachineSpec,
    MachineState,
    SavedState,
)


def lock_is_free(runtime: Path) -> bool:
    """Asked of the kernel, not of the code under test."""
    with open(runtime / "alive.lock", "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


class DriverSuite(ExecSuite):
    etc = "/etc"  # where a guest's files say who it is

    @pytest.fixture
    def runtime(self, tmp_path: Path, driver: MachineDriver) -> Iterator[Path]:
        runtime = tmp_path / "machine"
        yield runtime
        self.end(driver, tmp_path)

    @staticmethod
    def end(driver: MachineDriver, directory: Path) -> None:
        """Whatever machine a test left below its own directory."""
        for record in directory.rglob("machine.json"):
            machine = driver.attach(record.parent)
            if machine is not None:
                machine.kill()

    @pytest.fixture
    def booted(self, driver: MachineDriver, runtime: Path, spec: MachineSpec, image: GuestImage) -> Machine:
        return driver.boot(runtime, spec, image, timeout_seconds=BOOT_SECONDS)

    @pytest.fixture
    def machine(self, booted: Machine) -> Machine:
        """A driver whose boot is slow may give one that was resumed from a booted machine's moment."""
        return booted

    @pytest.fixture
    def capture(self, tmp_path: Path) -> Callable[..., Capture]:
        def take(machine: Machine, name: str = "staging", **options: Any) -> Capture:
            staging = tmp_path / name
            staging.mkdir()
            return machine.capture(staging, **options)

        return take

    @pytest.fixture
    def resume(self, driver: MachineDriver, tmp_path: Path, spec: MachineSpec, image: GuestImage) -> Callable[..., Machine]:
        def start(saved: SavedState, name: str = "resumed", identity: GuestIdentity | None = None) -> Machine:
            machine = driver.resume(tmp_path / name, spec, image, saved, timeout_seconds=GUEST_SECONDS)
            assert machine.inspect().state is MachineState.PAUSED
            machine.run()
            machine.greet(GUEST_SECONDS, identity)
            return machine

        return start

    # -- boot, look, end

    def test_a_booted_machine_runs_and_its_guest_answers(self, booted):
        assert booted.inspect().state is MachineState.RUNNING
        booted.ping(GUEST_SECONDS)

    def test_a_second_boot_in_the_directory_of_a_live_machine_is_refused_and_harms_nothing(self, driver, machine, runtime, spec, image):
        with pytest.raises(MachineError) as refusal:
            driver.boot(runtime, spec, image, timeout_seconds=BOOT_SECONDS)
        assert refusal.value.code == "boot_failed"
        machine.ping(GUEST_SECONDS)

    def test_an_image_without_its_kernel_is_a_bad_image_and_leaves_no_file(self, driver, runtime, spec, image):
        with pytest.raises(MachineError) as refusal:
            driver.boot(runtime, spec, replace(image, kernel=image.kernel.with_name("absent")), timeout_seconds=BOOT_SECONDS)
        assert refusal.value.code == "bad_image"
        assert not runtime.exists()

    def test_a_killed_machine_is_dead_its_lock_is_free_and_killing_it_again_does_nothing(self, driver, machine, runtime):
        pid = machine.inspect().pid
        machine.kill()
        assert lock_is_free(runtime)
        assert machine.inspect().state is MachineState.DEAD
        assert machine.inspect().pid is None
        assert not Path(f"/proc/{pid}").exists()
        machine.kill()
        assert driver.attach(runtime) is None

    def test_a_process_that_was_killed_from_outside_is_seen_as_dead_with_a_reason(self, machine, runtime):
        os.kill(machine.inspect().pid, signal.SIGKILL)
        machine.kill()
        status = machine.inspect()
        assert status.state is MachineState.DEAD
        assert status.reason

    def test_killing_never_harms_a_process_that_took_over_the_dead_machines_id(self, driver, machine, runtime):
        machine.kill()
        with subprocess.Popen(["sleep", "60"]) as bystander:
            record = runtime / "machine.json"
            record.write_text(record.read_text().replace('"pid": ', f'"pid": {bystander.pid}, "was": '))
            with open(runtime / "alive.lock", "rb") as lock:  # a lock that somebody else holds
                fcntl.flock(lock, fcntl.LOCK_EX)
                stranger = driver.attach(runtime)
                with pytest.raises(MachineError) as refusal:
                    stranger.kill()
            assert refusal.value.code == "kill_failed"
            assert bystander.poll() is None
            bystander.kill()

    def test_every_verb_that_needs_the_guest_says_that_a_dead_machine_is_dead(self, machine, capture):
        machine.kill()
        verbs = [
            lambda: machine.ping(5),
            lambda: machine.greet(5),
            lambda: machine.exec(["true"], timeout_seconds=5, output_limit=100),
            lambda: capture(machine),
            machine.stop,
            machine.run,
            lambda: machine.flatten(()),
        ]
        for verb in verbs:
            with pytest.raises(MachineError) as refusal:
                verb()
            assert refusal.value.code == "machine_dead"

    def test_another_worker_finds_the_live_machine_by_its_directory(self, driver, machine, runtime):
        run(machine, "echo kept > note")
        adopted = driver.attach(runtime)
        assert adopted.inspect() == machine.inspect()
        assert run(adopted, "cat note") == "kept"

    def test_a_directory_without_a_machine_is_adopted_as_nothing(self, driver, tmp_path):
        assert driver.attach(tmp_path / "nothing") is None
        assert driver.attach(tmp_path) is None

    # -- stop and run

    def test_stop_and_run_are_idempotent(self, machine):
        machine.stop()
        machine.stop()
        assert machine.inspect().state is MachineState.PAUSED
        machine.run()
        machine.run()
        assert machine.inspect().state is MachineState.RUNNING
        machine.ping(GUEST_SECONDS)

    def test_a_stopped_guest_is_silent_and_answers_again_when_it_runs(self, machine):
        machine.stop()
        with pytest.raises(MachineError) as silence:
            machine.ping(0.3)
        assert silence.value.code == "guest_silent"
        machine.run()
        machine.ping(GUEST_SECONDS)
        assert run(machine, "echo back") == "back"

    # -- capture and resume

    def test_a_captured_machine_goes_on_after_its_process_was_killed(self, machine, capture, resume, image, tmp_path):
        run(machine, "echo before > note")
        saved = assemble(capture(machine), image, tmp_path / "saved")
        run(machine, "echo after > note")
        machine.kill()
        assert run(resume(saved), "cat note") == "before"

    def test_the_captured_machine_itself_runs_on_undisturbed(self, machine, capture):
        run(machine, "echo before > note")
        capture(machine)
        assert machine.inspect().state is MachineState.RUNNING
        assert run(machine, "cat note") == "before"

    def test_a_capture_is_whole_and_its_parts_of_the_pause_add_up(self, machine, capture):
        run(machine, "echo some work")
        taken = capture(machine)
        assert taken.pages.stat().st_size == 4096 * len(taken.page_numbers) > 0
        assert (taken.page_numbers[1:] > taken.page_numbers[:-1]).all()
        assert set(taken.pause_parts) == {"stop", "devices", "disk", "pages", "continue"}
        assert taken.pause_seconds == pytest.approx(sum(taken.pause_parts.values()))
        assert taken.devices.stat().st_size > 0

    def test_where_there_is_nothing_to_flatten_nothing_is_done(self, machine, capture):
        overlays = capture(machine).overlays
        assert len(overlays) < 2
        assert machine.flatten(overlays) is False
        assert machine.inspect().state is MachineState.RUNNING

    def test_a_capture_that_shall_not_continue_leaves_the_machine_paused(self, machine, capture):
        capture(machine, continue_after=False)
        assert machine.inspect().state is MachineState.PAUSED
        machine.run()
        machine.ping(GUEST_SECONDS)

    def test_a_paused_machine_can_be_captured_and_is_set_running_only_if_asked(self, machine, capture, resume, image, tmp_path):
        run(machine, "echo kept > note")
        machine.stop()
        first = capture(machine, "first", continue_after=False)
        assert machine.inspect().state is MachineState.PAUSED
        capture(machine, "second")
        assert machine.inspect().state is MachineState.RUNNING
        saved = assemble(first, image, tmp_path / "saved")
        machine.kill()
        assert run(resume(saved), "cat note") == "kept"

    def test_two_captures_in_a_row_are_two_moments_and_both_resume(self, machine, capture, resume, image, tmp_path):
        run(machine, "echo one > note")
        first = assemble(capture(machine, "first"), image, tmp_path / "saved1")
        run(machine, "echo two > note")
        second = assemble(capture(machine, "second"), image, tmp_path / "saved2")
        machine.kill()
        assert run(resume(first, "resumed1"), "cat note") == "one"
        assert run(resume(second, "resumed2"), "cat note") == "two"

    def test_a_resumed_machine_can_be_captured_and_resumed_again(self, machine, capture, resume, image, tmp_path):
        run(machine, "echo one > note")
        saved = assemble(capture(machine, "first"), image, tmp_path / "saved1")
        machine.kill()
        middle = resume(saved, "resumed1")
        run(middle, "echo two >> note")
        taken = capture(middle, "second")
        assert taken.memory_base == saved.memory.resolve()
        again = assemble(taken, image, tmp_path / "saved2")
        middle.kill()
        assert run(resume(again, "resumed2"), "cat note") == "one\ntwo"

    def test_two_machines_run_from_one_saved_moment_and_change_nothing_of_it(self, machine, capture, resume, image, tmp_path):
        run(machine, "echo common > note")
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        before = {path: path.read_bytes() for path in (saved.memory, saved.devices, saved.disk) if path}
        one, two = resume(saved, "one"), resume(saved, "two")
        run(one, "echo one > note")
        assert run(two, "cat note") == "common"
        assert all(path.read_bytes() == data for path, data in before.items())

    def test_machines_of_one_saved_moment_do_not_share_their_randomness(self, driver, machine, capture, resume, image, tmp_path):
        if not driver.capabilities().fresh_randomness:
            pytest.skip("this driver leaves the reseeding to its caller")
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        drawn = {run(resume(saved, name), "head -c 16 /dev/urandom | od -An -tx1") for name in ("one", "two", "three")}
        assert len(drawn) == 3

    def test_machines_of_one_saved_moment_take_the_identities_they_are_given_and_keep_the_saved_one_without(
        self, machine, capture, resume, image, tmp_path
    ):
        etc = self.etc
        run(machine, f"mkdir -p {etc}; echo saved > {etc}/hostname; echo {'0' * 32} > {etc}/machine-id")
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        one, two = (resume(saved, name, GuestIdentity(name[0] * 32, f"{name}-1")) for name in ("a-child", "b-child"))
        plain = resume(saved, "plain")
        told = [run(each, f"cat {etc}/hostname {etc}/machine-id") for each in (one, two, plain)]
        assert told == [f"a-child-1\n{'a' * 32}", f"b-child-1\n{'b' * 32}", f"saved\n{'0' * 32}"]

    def test_a_save_is_possible_while_a_command_runs(self, machine, capture):
        run(machine, "sh -c 'while [ ! -e stop ]; do echo . ; done' > running 2>&1 & echo started")
        assert capture(machine).pages.exists()
        assert run(machine, "touch stop; test -s running; echo goes on") == "goes on"

    @pytest.mark.parametrize("staging", ["absent", "used"])
    def test_a_capture_into_anything_but_an_empty_directory_is_refused_and_touches_nothing(self, machine, tmp_path, staging):
        (tmp_path / "used").mkdir()
        (tmp_path / "used" / "pages").write_text("somebody's")
        with pytest.raises(MachineError) as failure:
            machine.capture(tmp_path / staging)
        assert failure.value.code == "capture_failed"
        assert not (tmp_path / "absent").exists()
        assert (tmp_path / "used" / "pages").read_text() == "somebody's"
        assert machine.inspect().state is MachineState.RUNNING
        machine.ping(GUEST_SECONDS)

    def test_a_resume_from_a_damaged_device_state_fails_and_leaves_nothing(self, driver, machine, capture, image, spec, tmp_path):
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        saved.devices.write_bytes(b"no device state at all" * 100)
        kept = saved.memory.read_bytes()
        with pytest.raises(MachineError) as failure:
            driver.resume(tmp_path / "resumed", spec, image, saved, timeout_seconds=GUEST_SECONDS)
        assert failure.value.code == "resume_failed"
        assert not (tmp_path / "resumed").exists()
        assert saved.memory.read_bytes() == kept

    def test_a_memory_image_of_the_wrong_size_is_refused_before_anything_starts(self, driver, machine, capture, image, spec, tmp_path):
        saved = assemble(capture(machine), image, tmp_path / "saved")
        machine.kill()
        os.truncate(saved.memory, spec.memory_bytes // 2)
        with pytest.raises(MachineError) as failure:
            driver.resume(tmp_path / "resumed", spec, image, saved, timeout_seconds=GUEST_SECONDS)
        assert failure.value.code == "resume_failed"
        assert not (tmp_path / "resumed").exists()

    def test_a_process_that_is_frozen_is_reported_alive_with_the_reason_that_its_monitor_is_silent(self, machine):
        pid = machine.inspect().pid
        os.kill(pid, signal.SIGSTOP)
        try:
            status = machine.inspect()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (status.state, status.pid) == (MachineState.RUNNING, pid)
        assert "monitor" in status.reason
        machine.ping(GUEST_SECONDS)

    def test_the_pin_facts_are_text_and_the_same_each_time(self, driver, image):
        facts = driver.pin_facts(image.architecture)
        assert facts == driver.pin_facts(image.architecture)
        assert facts["architecture"] == image.architecture
        assert all(isinstance(value, str) and value for value in facts.values())

    def test_an_architecture_that_the_driver_does_not_run_is_hypervisor_missing(self, driver):
        with pytest.raises(MachineError) as refusal:
            driver.pin_facts("sparc64")
        assert refusal.value.code == "hypervisor_missing"

    def test_a_runtime_directory_with_a_long_path_serves_as_well(self, driver, spec, image, tmp_path):
        long = tmp_path / ("d" * 120) / "machine"
        machine = driver.boot(long, spec, image, timeout_seconds=BOOT_SECONDS)
        try:
            machine.ping(GUEST_SECONDS)
            assert driver.attach(long) is not None
        finally:
            machine.kill()
