"""Gate history: a worker killed with SIGKILL at any step of a restore or a fork leaves one machine, whole forks, and every line of history.

The worker is a process of its own; its machines are fakes that outlive it, as real ones do.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from checkpoints_app.models import Checkpoint
from sessions_app.models import Operation, Session
from sessions_app.services import event, fork
from tests.integration.operations.conftest import doorbells, host, session, world
from tests.integration.operations.forking import ask_fork, resumes
from tests.integration.operations.restoring import ask_restore
from tests.integration.operations.world import World, done, expire, guest, live_machines, succeeded
from tests.support import forked
from workers.crash import FORK_STEPS, RESTORE_STEPS
from workers.host import machines
from workers.operations.run import run

__all__ = ["doorbells", "host", "session", "world"]

CHILDREN = 2
#: `./keepstate prove` kills at every step; the whole suite is content with fewer of a fork's, which other tests walk too.
EVERY = int(os.environ.get("KEEPSTATE_EVERY_STEP", "2"))


def killed(world: World, operation: Operation, step: str) -> None:
    """Another process works at the operation until it reaches the step."""

    def work() -> None:
        world.at(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        run(operation.id)

    assert forked.run(work) == -signal.SIGKILL, f"no worker reached {step}"


def lines(session: Session) -> list[tuple[int, str, str, int]]:
    return list(session.events.order_by("number").values_list("number", "id", "type", "epoch"))


def assert_kept(session: Session, before: list[tuple[int, str, str, int]]) -> None:
    session.refresh_from_db()
    now = lines(session)
    assert now[: len(before)] == before, "a line of the history changed or is gone"
    assert [number for number, *_ in now] == list(range(1, session.event_count + 1)), "numbers have a gap"
    epochs = [epoch for *_, epoch in now]
    assert epochs == sorted(epochs), "an epoch came back"


def prove_restore(world: World, session: Session, step: str) -> dict[str, Any]:
    guest(session, "echo kept > note")
    point = world.save(session)
    guest(session, "echo later > note")
    before = lines(session)
    operation = ask_restore(session, point)
    killed(world, operation, step)
    assert_kept(session, before)
    assert len(live_machines()) <= 1, "two machines of one session at once"
    expire(operation)
    succeeded(operation)
    assert_kept(session, before)
    assert live_machines() == [f"{session.id}.{session.epoch}"], "exactly the machine of the present epoch lives"
    assert guest(session, "cat note") == "kept"
    assert [type_ for _, _, type_, _ in lines(session)[len(before) :]] == ["session.restoring", "session.restored"]
    return {"step": step, "attempts": operation.attempt, "epoch": session.epoch, "lines_kept": len(before)}


def prove_fork(world: World, session: Session, step: str) -> dict[str, Any]:
    guest(session, "echo common > note")
    before = lines(session)
    operation = ask_fork(session, CHILDREN)
    killed(world, operation, step)
    assert_kept(session, before)
    assert whole_children(session) in (0, CHILDREN), "half a fork"
    expire(operation)
    if not fork.children_of(operation):
        done(operation)
    for resume in resumes(list(Session.objects.filter(parent_id=session.id))):
        succeeded(resume)
    succeeded(operation)
    assert_kept(session, before)
    assert whole_children(session) == CHILDREN, "each child once"
    children = Session.objects.filter(parent_id=session.id)
    assert sorted(live_machines()) == sorted(f"{one.id}.{one.epoch}" for one in [session, *children])
    assert {guest(child, "cat note") for child in children} == {"common"}
    assert [type_ for _, _, type_, _ in lines(session)].count("session.fork") == 1
    return {"step": step, "attempts": operation.attempt, "children": CHILDREN, "lines_kept": len(before)}


def whole_children(session: Session) -> int:
    """How many there are; each has its checkpoint, its first line and its resume, or it is no child."""
    children = list(Session.objects.filter(parent_id=session.id))
    for child in children:
        assert Checkpoint.objects.get(session=child, id=child.head_checkpoint_id).state == "published"
        assert event.span(child.id, after=0, upto=1).get().type == "session.forked"
        assert child.operations.filter(kind="resume").count() == 1
    return len(children)


@pytest.mark.gate("history", "A worker killed at any step of a restore leaves one machine and every line; its successor finishes it once")
@pytest.mark.parametrize("step", RESTORE_STEPS)
def test_a_worker_killed_in_a_restore(world: World, session: Session, step: str, evidence: dict[str, Any]) -> None:
    evidence |= prove_restore(world, session, step)


@pytest.mark.gate("history", "A worker killed at any step of a fork leaves all children or none; its successor finishes it once")
@pytest.mark.parametrize("step", ["row_written", "before_publish", "published", *FORK_STEPS][::EVERY])
def test_a_worker_killed_in_a_fork(world: World, session: Session, step: str, evidence: dict[str, Any]) -> None:
    evidence |= prove_fork(world, session, step)


def test_the_gate_fails_when_a_successor_does_not_end_what_the_dead_worker_started(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "end_all", lambda *_, **__: None)
    with pytest.raises(AssertionError, match="machine"):
        prove_restore(world, session, "loaded")


def test_the_gate_fails_when_a_successor_does_not_find_the_children_that_there_are(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: Callable[[str, int], str] = fork.child_id
    monkeypatch.setattr(fork, "child_id", lambda operation_id, number: named(f"{operation_id}/{os.getpid()}", number))
    with pytest.raises(AssertionError):
        prove_fork(world, session, "fork_created")
