"""Machines without vmgenid: a save holds the guest's programs still, and they go on only when its generator has been reseeded.

Shown on x86-64 with that device left out: an arm64 kernel draws from its generator at each system call, so there two clones part
soon even if nobody reseeds them, and a test would not see what is missing.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.driver_suite import DriverSuite
from tests.machine_kit import BOOT_SECONDS, GUEST_SECONDS, assemble, run
from tests.support.waiting import until
from workers.machine.driver import GuestIdentity, GuestImage, Machine, MachineError, MachineSpec, MachineState
from workers.machine.qemu import guest_freeze
from workers.machine.qemu.driver import QemuDriver
from workers.machine.qemu.platform import PLATFORMS, X86_64

pytestmark = pytest.mark.vm
SPEC = MachineSpec("held", 128 << 20, 1)
DRAWER = 'n=0; while :; do n=$((n+1)); read -r u </proc/sys/kernel/random/uuid; echo "$n $u" >>/run/draws; usleep 5000; done'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("held")


@pytest.fixture(scope="module")
def driver(home: Path) -> Iterator[QemuDriver]:
    driver = QemuDriver(home / "proofs")
    with patch.dict(PLATFORMS, {"x86_64": replace(X86_64, devices=())}):
        yield driver
        DriverSuite.end(driver, home)


@pytest.fixture(scope="module")
def machine(driver: QemuDriver, tiny_image: GuestImage, home: Path) -> Machine:
    """One for the module, with a program in it that draws all the time."""
    machine = driver.boot(home / "machine", SPEC, tiny_image, timeout_seconds=BOOT_SECONDS)
    run(machine, f"({DRAWER}) >/dev/null 2>&1 &")
    return machine


@pytest.fixture
def resume(driver: QemuDriver, tiny_image: GuestImage, machine: Machine, home: Path, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """What it resumes is ended with the test: its program draws all the time too, and keeps an emulated processor busy."""
    there: list[Machine] = []

    def start(saved, name, identity=None, greet=True):
        resumed = driver.resume(home / f"{tmp_path.name}-{name}", SPEC, tiny_image, saved, timeout_seconds=GUEST_SECONDS)
        there.append(resumed)
        resumed.run()
        if greet:
            resumed.greet(GUEST_SECONDS, identity)
        return resumed

    yield start
    for resumed in there:
        resumed.kill()


def taken(machine: Machine, tmp_path: Path, **options: Any):
    staging = tmp_path / "staging"
    staging.mkdir()
    return machine.capture(staging, **options)


def draws(machine: Machine) -> list[str]:
    result = machine.exec(["cat", "/run/draws"], timeout_seconds=60, output_limit=4 << 20)
    assert (result.exit_code, result.truncated) == (0, False)
    return result.stdout.decode().splitlines()


def goes_on(machine: Machine) -> None:
    seen = int(run(machine, "wc -l </run/draws"))
    until(lambda: int(run(machine, "wc -l </run/draws")) > seen, 30, "the guest's program goes on")


def test_nothing_of_a_resumed_guest_runs_before_it_is_greeted_and_what_it_draws_then_is_its_own(machine, tiny_image, resume, tmp_path):
    saved = assemble(taken(machine, tmp_path), tiny_image, tmp_path / "saved")
    held = resume(saved, "held", greet=False)
    at_the_save = draws(held)  # the commands of the host are not of the session that was saved
    run(held, "sleep 1")
    assert draws(held) == at_the_save
    held.greet(GUEST_SECONDS)
    goes_on(held)
    one, two = (resume(saved, name, GuestIdentity(name[0] * 32, name)) for name in ("ada", "bob"))
    for clone in (one, two):
        goes_on(clone)
    first, second = draws(one), draws(two)
    alike = sum(a == b for a, b in zip(first, second, strict=False))
    assert 0 <= alike - len(at_the_save) <= 1, "but for one that was drawn before the save and written down after it"
    assert not set(first[alike:]) & set(second[alike:])
    assert [run(clone, "hostname") for clone in (one, two)] == ["ada", "bob"]


def test_after_a_live_save_the_programs_go_on(machine, tmp_path):
    taken(machine, tmp_path)
    goes_on(machine)
    assert not guest_freeze.is_marked(machine.runtime)


def test_programs_that_a_save_which_died_left_frozen_go_on_with_the_machine(driver, machine, tmp_path):
    taken(machine, tmp_path, continue_after=False)
    assert guest_freeze.is_marked(machine.runtime)
    driver.attach(machine.runtime).run()
    goes_on(machine)
    assert not guest_freeze.is_marked(machine.runtime)


def test_a_save_that_fails_while_they_are_held_sets_them_going(machine, tmp_path, monkeypatch):
    monkeypatch.setattr("workers.machine.qemu.capture_memory.WrittenMemory.copy", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        taken(machine, tmp_path)
    assert machine.inspect().state is MachineState.RUNNING
    goes_on(machine)


def test_a_clone_whose_programs_were_not_held_at_the_save_is_refused_and_a_plain_resume_is_not(machine, tiny_image, resume, tmp_path):
    machine.stop()
    capture = taken(machine, tmp_path, continue_after=False)
    machine.run()
    saved = assemble(capture, tiny_image, tmp_path / "saved")
    with pytest.raises(MachineError, match="not held at the save") as refusal:
        resume(saved, "clone", GuestIdentity("a" * 32, "ada"))
    assert refusal.value.code == "exec_failed"
    goes_on(resume(saved, "plain"))
