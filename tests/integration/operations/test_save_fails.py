"""A save that fails: the machine runs on, the previous checkpoint is the newest and unchanged, and the row says why."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import OperationalError

from checkpoints_app.models import Checkpoint
from sessions_app.models import Session
from tests.integration.operations.world import (
    World,
    done,
    error_of,
    events,
    guest,
    leftovers,
    live_machines,
    objects,
    runs,
    scribble,
    store_directory,
)
from workers.machine.driver import MachineError
from workers.machine.fake.machine import FakeMachine
from workers.operations import checkpoint as saving
from workers.operations.settle import settle_host

CAPTURE_STEPS = ["stop", "devices", "disk", "pages"]
STORE_STEPS = ["row_written", "packs_written", "packs_durable", "manifest_verified", "manifest_durable", "before_publish"]


def refuse(code: int) -> Callable[[], None]:
    def act() -> None:
        raise OSError(code, os.strerror(code))

    return act


@pytest.fixture
def previous(world: World, session: Session) -> Checkpoint:
    guest(session, "echo kept > note")
    return world.save(session)


def assert_nothing_happened(session: Session, previous: Checkpoint, before: dict[str, str]) -> None:
    session.refresh_from_db()
    previous.refresh_from_db()
    assert (session.runtime_state, session.head_checkpoint_id, previous.state) == ("running", previous.id, "published")
    assert runs(session)
    after = objects()
    assert {name: after.get(name) for name in before} == before, "an object of the previous checkpoint changed"
    assert list(session.checkpoints.filter(state="published")) == [previous]
    assert leftovers() == []


@pytest.mark.parametrize("step", CAPTURE_STEPS)
def test_a_capture_that_fails_at_any_step_leaves_all_as_it_was(world: World, session: Session, previous: Checkpoint, step: str) -> None:
    before = objects()
    world.faults.capture_fails_at = step
    error = error_of(world.ask_save(session))
    assert (error["code"], error["reason"], error["previous_checkpoint_id"]) == ("ks_save_failed", "capture_failed", previous.id)
    assert_nothing_happened(session, previous, before)
    failed = session.checkpoints.get(state="failed")
    assert failed.failure is not None
    assert f"fault asked for at {step}" in failed.failure["message"]
    assert events(session)[-2:] == ["checkpoint.failed", "session.running"]


@pytest.mark.parametrize("step", CAPTURE_STEPS)
def test_a_host_without_room_says_so(world: World, session: Session, previous: Checkpoint, step: str) -> None:
    before = objects()
    world.faults.no_space_at = step
    error = error_of(world.ask_save(session))
    assert (error["code"], error["reason"]) == ("ks_save_failed", "no_space")
    assert_nothing_happened(session, previous, before)


@pytest.mark.parametrize("step", STORE_STEPS)
def test_a_save_that_fails_after_the_capture_leaves_all_as_it_was(world: World, session: Session, previous: Checkpoint, step: str) -> None:
    before = objects()
    scribble(session, 1, seed=1)
    world.at(step, refuse(errno.EIO))
    error = error_of(world.ask_save(session))
    assert error["code"] == "ks_save_failed"
    assert step not in world.steps, "the step was reached"
    assert_nothing_happened(session, previous, before)


@pytest.mark.parametrize("step", ["packs_durable", "before_publish"])
def test_no_room_is_told_wherever_it_is_missing(world: World, session: Session, previous: Checkpoint, step: str) -> None:
    scribble(session, 1, seed=1)
    world.at(step, refuse(errno.ENOSPC))
    error = error_of(world.ask_save(session))
    assert (error["code"], error["reason"]) == ("ks_save_failed", "no_space")


def test_a_save_that_failed_can_be_asked_for_again(world: World, session: Session, previous: Checkpoint) -> None:
    world.faults.capture_fails_at = "pages"
    error_of(world.ask_save(session))
    world.faults.capture_fails_at = None
    assert world.save(session).parent_id == previous.id


def test_a_save_with_stop_that_fails_leaves_the_machine_running(world: World, session: Session, previous: Checkpoint) -> None:
    before = objects()
    world.at("packs_written", refuse(errno.EIO))
    error_of(world.ask_save(session, stop=True))
    assert_nothing_happened(session, previous, before)


def test_a_machine_that_dies_during_its_save_fails_the_session_and_publishes_nothing(world: World, session: Session) -> None:
    previous = world.save(session)
    world.at("row_written", lambda: world.kill(session))
    error = error_of(world.ask_save(session))
    session.refresh_from_db()
    assert error["code"] == "ks_machine_lost"
    assert (session.runtime_state, session.head_checkpoint_id, session.host_id) == ("failed", previous.id, "")
    assert session.checkpoints.filter(state="published").count() == 1
    world.resume(session)


def test_a_save_of_a_machine_that_is_gone_fails_the_session(world: World, session: Session, previous: Checkpoint) -> None:
    world.kill(session)
    error = error_of(world.ask_save(session))
    session.refresh_from_db()
    assert error["code"] == "ks_machine_lost"
    assert "Nothing was saved" in str(error["message"])
    assert session.runtime_state == "failed"
    assert session.failure is not None


def test_a_guest_that_has_ended_is_a_lost_machine_and_not_a_fault_of_ours(
    world: World, session: Session, previous: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process still stands there, as QEMU's does after the guest powered itself off."""
    monkeypatch.setattr(FakeMachine, "run", machine_error("machine_dead", "the guest shut down"))
    error = error_of(world.ask_save(session))
    session.refresh_from_db()
    assert error["code"] == "ks_machine_lost"
    assert session.runtime_state == "failed"


def test_a_machine_that_does_not_obey_is_not_called_dead_and_is_not_ended(
    world: World, session: Session, previous: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.faults.capture_fails_at = "pages"
    operation = world.ask_save(session)
    with monkeypatch.context() as patch:
        patch.setattr(FakeMachine, "run", after_first(machine_error("monitor_silent", "no answer")))
        error = error_of(operation)
    session.refresh_from_db()
    assert error["code"] == "ks_save_failed"
    assert "ended" not in str(error["message"])
    assert "runs on" not in str(error["message"])
    settle_host()
    session.refresh_from_db()
    assert session.runtime_state == "running"
    assert guest(session, "cat note") == "kept"


def test_a_commit_whose_answer_was_lost_is_found_and_the_stop_is_finished(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, seen = saving._publish, list[object]()

    def publish_and_lose_the_answer(*arguments: object) -> None:
        publish(*arguments)  # type: ignore[arg-type]
        seen.append(runs(session))
        raise OperationalError("the connection was closed")

    monkeypatch.setattr(saving, "_publish", publish_and_lose_the_answer)
    monkeypatch.setattr(FakeMachine, "run", recorded(seen))
    operation = done(done(world.ask_save(session, stop=True)))
    session.refresh_from_db()
    assert (operation.state, operation.attempt) == ("succeeded", 2), operation.error
    assert session.runtime_state == "parked"
    assert session.checkpoints.get().state == "published"
    assert seen == ["run", False], "set running before the save, and never after it was published"
    assert live_machines() == []


def test_a_live_commit_whose_answer_was_lost_stays_the_success_that_it_was(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = saving._publish

    def publish_and_lose_the_answer(*arguments: object) -> None:
        publish(*arguments)  # type: ignore[arg-type]
        raise OperationalError("the connection was closed")

    monkeypatch.setattr(saving, "_publish", publish_and_lose_the_answer)
    operation = done(world.ask_save(session))
    assert operation.state == "succeeded"
    assert session.checkpoints.get().state == "published"


def test_a_failure_before_the_session_was_touched_is_told_as_itself(
    world: World, session: Session, previous: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(saving, "_begin", broken)
    before = objects()
    error = error_of(world.ask_save(session))
    assert error["code"] == "ks_save_failed"
    assert_nothing_happened(session, previous, before)


@pytest.fixture
def small_store(host: Path) -> Iterator[Path]:
    """The store on a file system of 6 MiB."""
    store = store_directory()
    store.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", store], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system for the store needs root")
    yield store
    subprocess.run(["umount", store], check=True)


@pytest.mark.parametrize("stop", [False, True])
def test_a_full_store_refuses_the_save_and_the_previous_checkpoint_resumes(small_store: Path, world: World, stop: bool) -> None:
    session = world.boot()
    guest(session, "echo kept > note")
    previous, before = world.save(session), objects()
    scribble(session, 8, seed=1)
    guest(session, "echo later > note")
    error = error_of(world.ask_save(session, stop=stop))
    assert (error["code"], error["reason"]) == ("ks_save_failed", "no_space")
    assert_nothing_happened(session, previous, before)
    world.kill(session)
    world.resume(session, previous.id)
    assert guest(session, "cat note") == "kept"


def test_the_errors_of_a_save_carry_no_path_of_the_host(world: World, session: Session, tmp_path: Path) -> None:
    def broken() -> None:
        raise OSError(errno.EIO, "input/output error", str(tmp_path / "file"))

    world.at("packs_durable", broken)
    error = error_of(world.ask_save(session))
    assert str(tmp_path) not in str(error)
    assert error["reason"] == "internal"


def machine_error(code: str, message: str) -> Callable[..., None]:
    def act(*_: object) -> None:
        raise MachineError(code, message)

    return act


def after_first(act: Callable[..., None]) -> Callable[..., None]:
    """The first call does what it did before; each later one is `act`."""
    original, calls = FakeMachine.run, []

    def run(machine: FakeMachine) -> None:
        calls.append(machine)
        (original if len(calls) == 1 else act)(machine)

    return run


def recorded(seen: list[object]) -> Callable[..., None]:
    original = FakeMachine.run

    def run(machine: FakeMachine) -> None:
        seen.append("run")
        original(machine)

    return run
