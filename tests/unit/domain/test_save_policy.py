"""Automatic saves: off until asked for, never two at once, a missed one made once. The clock is moved in the rows."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from sessions_app.errors import Conflict, Invalid
from sessions_app.models import Operation, SavePolicy, Session
from sessions_app.services import save_policy
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.states import SessionState
from tests.support import worker
from tests.support.fleet import Tenant, session_row


def switched_on(tenant: Tenant, **fields: object) -> Session:
    session = session_row(tenant.account, **fields)  # type: ignore[arg-type]
    save_policy.change(session, enabled=True, interval_minutes=10, expected_revision=session.revision)
    session.refresh_from_db()
    return session


def due(session: Session, minutes_ago: int = 1) -> None:
    SavePolicy.objects.filter(session=session).update(due_at=Now() - timedelta(minutes=minutes_ago))


def asked_for(session: Session) -> list[Operation]:
    return list(session.operations.filter(kind="checkpoint").order_by("accepted_at"))


def test_a_session_saves_nothing_by_itself_until_it_is_asked_to(owner: Tenant) -> None:
    session = session_row(owner.account)
    assert save_policy.read(session).state == "off"
    assert save_policy.run_due() == 0


def test_the_first_save_is_a_whole_interval_away(owner: Tenant) -> None:
    session = switched_on(owner)
    assert save_policy.read(session).state == "scheduled"
    assert save_policy.run_due() == 0


def test_a_due_save_is_asked_for_once_and_the_next_is_an_interval_away(owner: Tenant) -> None:
    session = switched_on(owner)
    due(session)
    assert (save_policy.run_due(), save_policy.run_due()) == (1, 0)
    (operation,) = asked_for(session)
    assert (operation.parameters["stop"], operation.parameters["reason"], operation.queue) == (False, "automatic", "host.h-test")
    policy = SavePolicy.objects.get()
    assert policy.last_operation_id == operation.id
    assert policy.last_attempt_at is not None
    assert policy.due_at is not None
    assert policy.due_at - policy.last_attempt_at == timedelta(minutes=10)


def test_hours_without_a_sweep_make_one_save_and_not_many(owner: Tenant) -> None:
    session = switched_on(owner)
    due(session, minutes_ago=600)
    save_policy.run_due()
    worker.work_all()
    assert save_policy.run_due() == 0
    assert len(asked_for(session)) == 1


def test_a_session_that_is_busy_is_saved_when_it_is_free(owner: Tenant) -> None:
    session = switched_on(owner)
    busy = sessions.checkpoint(session, stop=False, reason="mine", asked=Asked())
    due(session)
    assert save_policy.run_due() == 0
    seen = save_policy.read(session)
    assert (seen.state, busy.id in seen.policy.deferred_reason, seen.policy.pending_since is not None) == ("pending", True, True)
    Operation.objects.update(state="failed")
    due(session)
    assert save_policy.run_due() == 1
    assert save_policy.read(session).state == "scheduled"


def test_a_session_that_its_owner_has_just_saved_waits_an_interval_from_there(owner: Tenant) -> None:
    session = switched_on(owner, saved=True)
    due(session)
    assert save_policy.run_due() == 0
    policy = SavePolicy.objects.get()
    assert policy.due_at is not None
    assert session.head_checkpoint_at is not None
    assert policy.due_at - session.head_checkpoint_at == timedelta(minutes=10)


def test_one_host_makes_one_automatic_save_at_a_time(owner: Tenant) -> None:
    first, second = switched_on(owner), switched_on(owner)
    due(first, minutes_ago=2)
    due(second)
    assert (save_policy.run_due(), len(asked_for(second))) == (1, 0)
    Operation.objects.update(state="succeeded")
    assert save_policy.run_due() == 1
    assert len(asked_for(second)) == 1


def test_a_parked_session_has_nothing_to_save_and_its_start_begins_the_clock_anew(owner: Tenant) -> None:
    session = switched_on(owner)
    due(session)
    worker.work(sessions.checkpoint(session, stop=True, reason="", asked=Asked()).id)
    assert save_policy.read(session).state == "idle"
    assert save_policy.run_due() == 0
    session.refresh_from_db()
    worker.work(sessions.resume(session, checkpoint_id=None, asked=Asked()).id)
    assert save_policy.read(session).state == "scheduled"
    assert save_policy.run_due() == 0


def test_a_save_does_not_set_the_clock_back(owner: Tenant) -> None:
    session = switched_on(owner)
    due(session, minutes_ago=-3)
    before = SavePolicy.objects.get().due_at
    worker.work(sessions.checkpoint(session, stop=False, reason="", asked=Asked()).id)
    assert SavePolicy.objects.get().due_at == before


def test_a_change_for_another_revision_is_refused_and_changes_nothing(owner: Tenant) -> None:
    session = session_row(owner.account)
    with pytest.raises(Conflict) as refused:
        save_policy.change(session, enabled=True, interval_minutes=None, expected_revision=session.revision + 1)
    assert (refused.value.word, refused.value.facts["revision"]) == ("ks_revision_conflict", session.revision)
    assert not SavePolicy.objects.exists()


def test_the_same_change_again_is_answered_and_advances_nothing(owner: Tenant) -> None:
    session = session_row(owner.account)
    first = save_policy.change(session, enabled=True, interval_minutes=7, expected_revision=session.revision)
    again = save_policy.change(session, enabled=True, interval_minutes=7, expected_revision=session.revision)
    assert first.session_revision == again.session_revision == session.revision + 1


@pytest.mark.parametrize("minutes", [4, 121, 0, -5])
def test_an_interval_outside_the_bounds_is_refused(owner: Tenant, minutes: int) -> None:
    session = session_row(owner.account)
    with pytest.raises(Invalid, match="5 to 120"):
        save_policy.change(session, enabled=True, interval_minutes=minutes, expected_revision=session.revision)


def test_switching_off_ends_the_schedule(owner: Tenant) -> None:
    session = switched_on(owner)
    due(session)
    save_policy.change(session, enabled=False, interval_minutes=None, expected_revision=session.revision)
    assert save_policy.run_due() == 0
    assert save_policy.read(session).state == "off"


@pytest.mark.parametrize("state", [SessionState.PARKED, SessionState.FAILED])
def test_switched_on_while_nothing_runs_it_waits_for_the_machine(owner: Tenant, state: SessionState) -> None:
    session = switched_on(owner, state=state)
    assert save_policy.read(session).state == "idle"
