"""Cancel: a worker that hears the request leaves the session as it was, and what finished first stays finished."""

from typing import Any

import pytest

from checkpoints_app.models import Checkpoint
from sessions_app.models import Operation, Session
from sessions_app.services import cancel
from tests.integration.operations.world import (
    Died,
    World,
    done,
    events,
    expire,
    guest,
    leftovers,
    live_machines,
    machine_of,
    runs,
    succeeded,
)
from tests.support.threads import at_once
from tests.support.waiting import until
from workers.machine.driver import ExecResult
from workers.machine.fake.machine import FakeMachine
from workers.operations import keeper as keeping
from workers.operations.keeper import Keeper
from workers.operations.run import run

pytestmark = pytest.mark.usefixtures("heard_at_once")


@pytest.fixture
def heard_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker listens whenever it looks up from its work, not once a second."""
    check = Keeper.check

    def listen_and_check(self: Keeper) -> None:
        self._listen()
        check(self)

    monkeypatch.setattr(Keeper, "check", listen_and_check)
    monkeypatch.setattr(keeping, "LISTEN_SECONDS", 0.02)


def cancelled(operation: Operation) -> Operation:
    done(operation)
    assert operation.state == "cancelled", (operation.state, operation.error)
    assert operation.error is not None
    assert operation.error["code"] == "ks_cancelled"
    return operation


@pytest.mark.parametrize("step", ["row_written", "packs_durable", "before_publish"])
@pytest.mark.parametrize("stop", [False, True])
def test_a_save_cancelled_before_its_publication_leaves_the_machine_running(world: World, session: Session, step: str, stop: bool) -> None:
    earlier = world.save(session)
    operation = world.ask_save(session, stop=stop)
    world.at(step, lambda: cancel.cancel(operation))
    cancelled(operation)
    session.refresh_from_db()
    assert (session.runtime_state, session.head_checkpoint_id) == ("running", earlier.id)
    assert runs(session)
    assert Checkpoint.objects.get(operation_id=operation.id).state == "failed"
    assert leftovers() == []
    world.save(session)


def test_a_save_that_is_published_when_the_cancel_comes_has_succeeded(world: World, session: Session) -> None:
    operation = world.ask_save(session)
    world.at("published", lambda: Operation.objects.filter(id=operation.id).update(cancel_requested_at="2020-01-01T00:00:00Z"))
    succeeded(operation)
    session.refresh_from_db()
    assert session.head_checkpoint_id == Checkpoint.objects.get(operation_id=operation.id).id


def test_a_published_save_is_not_kept_from_stopping_its_machine(world: World, session: Session) -> None:
    operation = world.ask_save(session, stop=True)
    world.at("published", lambda: Operation.objects.filter(id=operation.id).update(cancel_requested_at="2020-01-01T00:00:00Z"))
    succeeded(operation)
    session.refresh_from_db()
    assert session.runtime_state == "parked"
    assert live_machines() == []


def test_the_next_attempt_of_a_save_knows_what_was_asked_of_the_lost_one(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keeper, "_listen", lambda _: None)
    operation = world.ask_save(session)
    world.die_at("before_publish")
    with pytest.raises(Died):
        done(operation)
    cancel.cancel(operation)
    expire(operation)
    cancelled(operation)
    session.refresh_from_db()
    assert session.runtime_state == "running"
    assert runs(session)
    assert not Checkpoint.objects.filter(state="published").exists()


@pytest.mark.parametrize("step", ["resume_claimed", "images_ready", "loaded", "greeted"])
def test_a_resume_cancelled_on_its_way_leaves_the_session_parked_and_no_machine(world: World, session: Session, step: str) -> None:
    guest(session, "echo kept > note")
    world.save(session, stop=True)
    operation = world.ask_resume(session)
    world.at(step, lambda: cancel.cancel(operation))
    cancelled(operation)
    session.refresh_from_db()
    assert (session.runtime_state, session.park_reason) == ("parked", "resume_cancelled")
    assert live_machines() == []
    assert events(session)[-1] == "session.resume_cancelled"
    world.resume(session)
    assert guest(session, "cat note") == "kept"


def test_a_command_that_is_cancelled_ends_in_the_guest(world: World, session: Session) -> None:
    operation = world.ask_exec(session, "sh", "-c", "echo $$ > pid; exec sleep 600", seconds=600)
    noted = world.runtime(session) / "guest" / "pid"

    def cancel_once_it_runs() -> None:
        until(lambda: noted.exists() and noted.read_text().strip(), 30, "the command runs")
        cancel.cancel(operation)

    at_once(2, lambda number: cancel_once_it_runs() if number else run(operation.id))
    operation.refresh_from_db()
    assert (operation.state, operation.error and operation.error["code"]) == ("cancelled", "ks_cancelled")
    assert guest(session, "kill -0 $(cat pid) 2>/dev/null || echo gone") == "gone"
    assert machine_of(session).inspect().state == "running"


def test_a_command_that_ended_first_has_its_outcome(world: World, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = world.ask_exec(session, "sh", "-c", "exit 3")
    ask = FakeMachine.exec

    def cancelled_meanwhile(machine: FakeMachine, argv: list[str], **bounds: Any) -> ExecResult:
        result = ask(machine, argv, **bounds)
        cancel.cancel(operation)
        return result

    monkeypatch.setattr(FakeMachine, "exec", cancelled_meanwhile)
    done(operation)
    assert operation.response is not None
    assert (operation.state, operation.response["exit_code"]) == ("succeeded", 3)
