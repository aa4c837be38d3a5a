"""Two who want the same session at the same time: one has it, the other is told, and what is gone stays gone."""

import threading

import pytest
from django.db import transaction

from sessions_app.errors import Conflict
from sessions_app.models import Operation, Session
from sessions_app.services import event
from sessions_app.services import lease as leases
from tests.integration.operations.world import World, done, live_machines, objects, runtime_directories, succeeded
from tests.support.threads import at_once
from tests.support.waiting import until, waits_for_a_lock
from workers.host import turn


def test_of_two_resumes_at_once_one_is_done_and_the_other_names_it(world: World, session: Session) -> None:
    world.save(session, stop=True)

    def ask(_: int) -> Operation | Conflict:
        try:
            return world.ask_resume(session)
        except Conflict as refused:
            return refused

    answers = at_once(2, ask)
    (accepted,) = [answer for answer in answers if isinstance(answer, Operation)]
    (refused,) = [answer for answer in answers if isinstance(answer, Conflict)]
    assert (refused.word, refused.facts["operation_id"]) == ("ks_conflict", accepted.id)
    succeeded(accepted)
    assert live_machines() == [f"{session.id}.2"]


@pytest.mark.parametrize("step", ["resume_claimed", "images_ready", "loaded", "running", "greeted"])
def test_a_session_that_is_deleted_during_a_late_resume_stays_deleted(
    world: World, session: Session, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resume's worker was given up for lost, and comes back after the deletion, which has waited for it in vain."""
    monkeypatch.setattr(turn, "WAIT_SECONDS", 0)
    world.save(session, stop=True)
    operation = world.ask_resume(session)

    def give_up_and_delete() -> None:
        Operation.objects.filter(id=operation.id).update(state="failed", lease_expires_at=None)
        world.delete(Session.objects.get(id=session.id))

    world.at(step, give_up_and_delete)
    done(operation)
    session.refresh_from_db()
    assert (session.runtime_state, operation.state) == ("deleted", "failed")
    assert (live_machines(), runtime_directories(), objects()) == ([], [], {})


def test_a_deletion_waits_for_a_workers_commit_and_neither_stands_in_the_others_way(world: World, session: Session) -> None:
    """Locks are taken in one order: operations, then their session. In the other order one of the two would be thrown out."""
    operation = world.ask_exec(session, "true")
    lease = leases.claim(operation.id, "worker")
    assert lease is not None
    held, asked = threading.Event(), threading.Event()

    def commit_or_delete(number: int) -> None:
        if number:
            held.wait()
            asked.set()
            world.ask_delete(session)
            return
        with transaction.atomic():
            leases.require(lease)
            held.set()
            asked.wait()
            until(waits_for_a_lock, 30, "the deletion waits")
            event.append(session.id, "session.noted", source="test")

    at_once(2, commit_or_delete)
    operation.refresh_from_db()
    session.refresh_from_db()
    assert (operation.state, session.runtime_state) == ("cancelled", "deleting")
