"""A database that is older than the store: a checkpoint beyond its history does not go on unseen, and there is a way on."""

import pytest
from django.db import transaction

from checkpoints_app.models import Checkpoint
from sessions_app.models import Session
from sessions_app.services import reconcile
from tests.integration.operations.forking import ask_fork
from tests.integration.operations.restoring import answer_of, consented, refused
from tests.integration.operations.world import World, error_of, events, guest, live_machines
from tests.support.kept import without_rules

LOST = 4


@pytest.fixture
def beyond(world: World, session: Session) -> Checkpoint:
    """The session's only checkpoint; the last events of its history and its last epoch are lost, as with an older backup."""
    guest(session, "echo kept > note")
    world.save(session, stop=True)
    world.resume(session)
    point = world.save(session, stop=True)
    with without_rules(), transaction.atomic():
        count = point.event_watermark - LOST
        session.events.filter(number__gt=count).delete()
        Session.objects.filter(id=session.id).update(event_count=count, epoch=1)
    session.refresh_from_db()
    return point


def test_a_resume_from_beyond_the_history_is_refused_and_the_session_waits_for_a_decision(
    world: World, session: Session, beyond: Checkpoint
) -> None:
    error = error_of(world.ask_resume(session))
    session.refresh_from_db()
    assert (error["code"], error["event_watermark"]) == ("ks_recovery_required", beyond.event_watermark)
    assert (session.runtime_state, session.failure and session.failure["code"]) == ("recovery_required", "ks_recovery_required")
    assert events(session)[-1] == "session.recovery_required"
    assert live_machines() == []


def test_a_restore_lists_what_is_lost_and_with_consent_goes_on_in_an_epoch_that_nobody_had(
    world: World, session: Session, beyond: Checkpoint
) -> None:
    error_of(world.ask_resume(session))
    count = session.event_count
    told = refused(session, beyond)
    # the refused resume has itself written lines since
    assert [row["kind"] for row in told.facts["affected"]] == ["history"]
    answer = answer_of(consented(session, beyond))
    session.refresh_from_db()
    assert answer["new_epoch"] == beyond.source_epoch + 1 == session.epoch
    assert guest(session, "cat note") == "kept"
    numbers = list(session.events.order_by("number").values_list("number", flat=True))
    assert numbers == list(range(1, session.event_count + 1))
    assert session.events.get(number=beyond.event_watermark).type == reconcile.LOST
    assert count < beyond.event_watermark


def test_a_checkpoint_that_the_history_reaches_needs_no_such_consent(world: World, session: Session, beyond: Checkpoint) -> None:
    error_of(world.ask_resume(session))
    first = Checkpoint.objects.get(id=str(beyond.parent_id))
    kinds = {row["kind"] for row in refused(session, first).facts["affected"]}
    assert kinds == {"checkpoint"}
    answer_of(consented(session, first))
    assert reconcile.LOST not in events(session)


def test_a_restore_without_that_consent_changes_nothing(world: World, session: Session, beyond: Checkpoint) -> None:
    refused(session, beyond)
    session.refresh_from_db()
    assert session.runtime_state == "parked"


def test_no_child_begins_beyond_its_parents_history(world: World, session: Session, beyond: Checkpoint) -> None:
    assert error_of(ask_fork(session, 1, beyond.id))["code"] == "ks_recovery_required"
    assert Session.objects.count() == 1
