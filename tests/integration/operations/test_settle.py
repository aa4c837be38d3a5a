"""What a host settles by itself, because no operation looks after it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F

from sessions_app.models import Session, SessionUsage
from sessions_app.services import recovery_policy
from sessions_app.states import SessionState
from tests.integration.operations.world import (
    World,
    done,
    error_of,
    events,
    guest,
    live_machines,
    machine_of,
    pid_of,
    runs,
    runtime_directories,
    store_directory,
)
from tests.support.fleet import checkpoint_row
from workers.host import machines
from workers.host.identity import machines_directory, staging_directory
from workers.machine.driver import Ending, MachineError
from workers.machine.fake.machine import FakeMachine
from workers.models import Host
from workers.operations.observe import observe
from workers.operations.settle import settle_host


def as_if(session: Session, state: SessionState) -> None:
    """Its operation ended without finishing."""
    Session.objects.filter(id=session.id).update(runtime_state=state)
    session.refresh_from_db()


def settled(session: Session) -> Session:
    observe()
    session.refresh_from_db()
    return session


def test_a_session_that_runs_is_left_alone(world: World, session: Session) -> None:
    before = (session.revision, session.event_count, pid_of(session))
    settled(session)
    assert (session.revision, session.event_count, pid_of(session)) == before


def test_a_machine_that_is_seen_to_run_is_awake_until_now(world: World, session: Session) -> None:
    SessionUsage.objects.filter(session=session).update(proved_at=F("proved_at") - timedelta(hours=1))
    seen_before = SessionUsage.objects.get(session=session).proved_at
    settled(session)
    proved_at = SessionUsage.objects.get(session=session).proved_at
    assert seen_before is not None
    assert proved_at is not None
    assert proved_at > seen_before + timedelta(minutes=59)


def test_a_running_session_whose_machine_died_is_failed_and_says_why(world: World, session: Session) -> None:
    world.kill(session)
    settled(session)
    assert (session.runtime_state, session.host_id) == ("failed", "")
    assert session.failure is not None
    assert session.failure["code"] == "ks_machine_lost"
    assert events(session)[-1] == "session.machine_lost"
    assert runtime_directories() == []


@pytest.mark.parametrize(
    ("ending", "word"),
    [(Ending.GUEST_SHUTDOWN, "guest_shutdown"), (Ending.GUEST_PANICKED, "guest_panicked"), (Ending.UNKNOWN, "machine_lost")],
)
def test_a_guest_that_ended_by_itself_is_recorded_as_such_and_its_last_checkpoint_resumes(
    world: World, session: Session, ending: Ending, word: str
) -> None:
    guest(session, "echo kept > note")
    world.save(session)
    world.faults.guest_ended = ending
    settled(session)
    assert session.runtime_state == "failed"
    assert session.failure is not None
    assert (session.failure["code"], events(session)[-1]) == (f"ks_{word}", f"session.{word}")
    assert "intact" in session.failure["message"]
    assert live_machines() == []
    world.faults.guest_ended = None
    world.resume(session)
    assert guest(session, "cat note") == "kept"


def test_a_machine_that_was_killed_goes_on_from_its_last_checkpoint_if_its_owner_wants_that(world: World, session: Session) -> None:
    guest(session, "echo kept > note")
    world.save(session)
    recovering(session)
    world.kill(session)
    settled(session)
    done(session.operations.get(kind="resume", parameters__by="machine_lost"))
    session.refresh_from_db()
    assert (session.runtime_state, session.epoch, guest(session, "cat note")) == ("running", 2, "kept")


def test_a_machine_that_a_save_finds_gone_goes_on_too(world: World, session: Session) -> None:
    world.save(session)
    recovering(session)
    world.kill(session)
    assert error_of(world.ask_save(session))["code"] == "ks_machine_lost"
    assert session.operations.filter(kind="resume", parameters__by="machine_lost", state="queued").count() == 1


@pytest.mark.parametrize("ending", [Ending.GUEST_SHUTDOWN, Ending.GUEST_PANICKED])
def test_a_guest_that_ended_by_itself_is_not_resumed_whatever_its_owner_wants(world: World, session: Session, ending: Ending) -> None:
    world.save(session)
    recovering(session)
    world.faults.guest_ended = ending
    settled(session)
    assert session.runtime_state == "failed"
    assert not session.operations.filter(kind="resume").exists()


def recovering(session: Session) -> None:
    recovery_policy.change(session, on_host_loss=None, on_machine_loss=True, expected_revision=session.revision)
    session.refresh_from_db()


def test_a_guest_that_ended_before_anything_was_saved_says_so(world: World, session: Session) -> None:
    world.faults.guest_ended = Ending.GUEST_SHUTDOWN
    settled(session)
    assert session.failure is not None
    assert "Nothing of the session had been saved" in session.failure["message"]


def test_a_machine_that_a_lost_save_left_paused_is_set_running_and_the_save_is_failed(world: World, session: Session) -> None:
    machine_of(session).stop()
    as_if(session, SessionState.CHECKPOINTING)
    row = checkpoint_row(session, "capturing")  # type: ignore[arg-type]
    settled(session)
    row.refresh_from_db()
    assert session.runtime_state == "running"
    assert runs(session)
    assert row.state == "failed"
    assert row.failure is not None
    assert "checkpoint.failed" in events(session)


def test_a_lost_save_of_a_machine_that_died_fails_the_session(world: World, session: Session) -> None:
    world.kill(session)
    as_if(session, SessionState.CHECKPOINTING)
    settled(session)
    assert session.runtime_state == "failed"


def test_a_session_that_was_stopping_is_parked_and_its_machine_ended(world: World, session: Session) -> None:
    world.save(session)
    as_if(session, SessionState.STOPPING)
    settled(session)
    assert (session.runtime_state, session.park_reason) == ("parked", "requested")
    assert live_machines() == []


def test_a_session_that_was_resuming_is_parked_and_whatever_ran_is_ended(world: World, session: Session) -> None:
    world.save(session)
    as_if(session, SessionState.RESUMING)
    settled(session)
    assert (session.runtime_state, session.park_reason) == ("parked", "resume_failed")
    assert live_machines() == []


def test_a_session_that_was_provisioning_is_failed_and_says_why(world: World, session: Session) -> None:
    as_if(session, SessionState.PROVISIONING)
    settled(session)
    assert session.runtime_state == "failed"
    assert session.failure is not None
    assert live_machines() == []


@pytest.mark.parametrize("state", ["provisioning", "checkpointing", "stopping", "resuming"])
def test_what_an_operation_looks_after_is_left_to_it(world: World, session: Session, state: SessionState) -> None:
    world.ask_save(session)
    as_if(session, state)
    settled(session)
    assert session.runtime_state == state
    assert runs(session)


def test_sessions_of_other_hosts_are_not_touched(world: World, session: Session) -> None:
    world.kill(session)
    Session.objects.filter(id=session.id).update(host_id="h-another")
    settled(session)
    assert session.runtime_state == "running"


@pytest.mark.parametrize("state", ["provisioning", "resuming", "stopping"])
def test_a_session_that_came_to_run_while_the_host_looked_elsewhere_keeps_its_machine(
    world: World, session: Session, state: SessionState
) -> None:
    """The list of sessions is read first; by the time one's turn comes, its operation may have succeeded."""
    pid = pid_of(session)
    as_if(session, state)
    with after_the_first_query(lambda: as_if(session, SessionState.RUNNING)):
        settle_host()
    session.refresh_from_db()
    assert (session.runtime_state, pid_of(session)) == ("running", pid)


@contextmanager
def after_the_first_query(act: Callable[[], None]) -> Iterator[None]:
    """`act` happens once, between the first query and whatever is done about its rows."""
    waiting = [act]

    def watched(execute: Callable[..., object], *query: object) -> object:
        result = execute(*query)
        if waiting:
            waiting.pop()()
        return result

    with connection.execute_wrapper(watched):
        yield
    assert not waiting


def test_a_machine_of_an_epoch_that_was_left_is_ended(world: World, session: Session) -> None:
    Session.objects.filter(id=session.id).update(epoch=2, runtime_state="parked", host_id="")
    observe()
    assert live_machines() == []
    assert runtime_directories() == []


def test_the_directory_of_no_known_session_is_not_touched_and_told(
    world: World, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = machines_directory() / "somebody.1"
    unknown.mkdir()
    (unknown / "file").write_text("not ours")
    with caplog.at_level(logging.WARNING):
        observe()
    assert (unknown / "file").read_text() == "not ours"
    assert "no known session" in caplog.text


def test_a_directory_that_only_looks_like_a_sessions_is_not_touched(world: World, session: Session) -> None:
    copy = machines_directory() / f"{session.id}.1-copy"
    copy.mkdir()
    (copy / "file").write_text("an operator's")
    observe()
    assert (copy / "file").exists()


def test_one_machine_that_cannot_be_ended_does_not_keep_the_others_from_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [world.boot(), world.boot()]
    Session.objects.update(epoch=2, runtime_state="parked", host_id="")
    first = min(session.id for session in sessions)
    kill = FakeMachine.kill

    def not_the_first(machine: FakeMachine) -> None:
        if machine.runtime.name.startswith(first):
            raise MachineError("kill_failed", "the process does not go")
        kill(machine)

    with monkeypatch.context() as patch:
        patch.setattr(FakeMachine, "kill", not_the_first)
        observe()
    assert live_machines() == [f"{first}.1"]


def test_a_directory_whose_process_cannot_be_named_is_not_removed_under_it(world: World, session: Session) -> None:
    runtime = world.runtime(session)
    for name in ("machine.json", "hypervisor.pid"):
        (runtime / name).rename(runtime / (name + ".away"))
    try:
        with pytest.raises(MachineError, match=r"alive\.lock"):
            machines.end(runtime)
        assert runtime.exists()
    finally:
        for name in ("machine.json", "hypervisor.pid"):
            (runtime / (name + ".away")).rename(runtime / name)
    assert runs(session)


def test_staging_of_an_operation_that_has_ended_is_removed_and_of_one_that_works_is_not(world: World, session: Session) -> None:
    ended, working = world.ask_save(session), None
    done(ended)
    working = world.ask_save(session)
    stale, used, unknown = (staging_directory() / name for name in (f"{ended.id}.1", f"{working.id}.2", "somebody"))
    for directory in (stale, used, unknown):
        directory.mkdir(parents=True)
        (directory / "pages").write_text("of a guest's memory")
    observe()
    assert [path.exists() for path in (stale, used, unknown)] == [False, True, True]


def test_observation_tells_that_the_hosts_doorbells_are_read(world: World, session: Session) -> None:
    Host.objects.update(observed_at=session.created_at - timedelta(days=1))
    observe()
    observed_at = Host.objects.get().observed_at
    assert observed_at is not None
    assert observed_at > session.created_at


def test_an_installation_that_was_replaced_judges_no_session_of_its_successor(world: World, session: Session) -> None:
    world.kill(session)
    Host.objects.update(instance="another")
    observe()
    session.refresh_from_db()
    assert session.runtime_state == "running"


def test_unfinished_objects_of_a_worker_that_died_are_removed_from_the_store(world: World, session: Session) -> None:
    abandoned = store_directory() / "staging" / ("0" * 32)
    world.save(session)
    abandoned.mkdir()
    (abandoned / "1").write_text("half of a pack")
    observe()
    assert not abandoned.exists()
