"""Idle sessions: warned, then parked; use of any kind keeps them. The clock is moved in the rows."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from sessions_app.errors import Conflict, Invalid
from sessions_app.models import IdlePolicy, Operation, Session
from sessions_app.services import activity, idle_policy
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.states import SessionState
from tests.support import worker
from tests.support.fleet import Tenant, session_row


def switched_on(tenant: Tenant, **fields: object) -> Session:
    session = session_row(tenant.account, **fields)  # type: ignore[arg-type]
    idle_policy.change(session, enabled=True, idle_minutes=10, warning_seconds=60, expected_revision=session.revision)
    session.refresh_from_db()
    return session


def unused_for(session: Session, minutes: int, *, warned_seconds_ago: int | None = None) -> None:
    """As if it had last been used so long ago, and perhaps been warned."""
    warned = None if warned_seconds_ago is None else Now() - timedelta(seconds=warned_seconds_ago)
    IdlePolicy.objects.filter(session=session).update(active_at=Now() - timedelta(minutes=minutes), warned_at=warned, look_at=Now())


def parkings(session: Session) -> list[Operation]:
    return list(session.operations.filter(kind="checkpoint", parameters__stop=True))


def events(session: Session) -> list[str]:
    return list(session.events.order_by("number").values_list("type", flat=True))


def test_nothing_is_parked_until_it_is_asked_for(owner: Tenant) -> None:
    session = session_row(owner.account)
    assert idle_policy.read(session).state == "off"
    assert idle_policy.run_due() == 0


def test_a_session_in_use_is_counting_from_its_last_use(owner: Tenant) -> None:
    session = switched_on(owner)
    unused_for(session, 9)
    assert idle_policy.run_due() == 0
    seen = idle_policy.read(session)
    assert (seen.state, seen.park_at) == ("counting", None)
    assert seen.idle_since == seen.policy.active_at


def test_an_idle_session_is_warned_before_anything_happens(owner: Tenant) -> None:
    session = switched_on(owner)
    unused_for(session, 11)
    assert idle_policy.run_due() == 0
    seen = idle_policy.read(session)
    assert seen.state == "warned"
    assert seen.warned_at is not None
    assert seen.park_at == seen.warned_at + timedelta(seconds=60)
    assert events(session)[-1] == "session.idle_warning"
    assert idle_policy.run_due() == 0, "it is warned once"
    assert not parkings(session)


def test_a_warned_session_is_saved_and_parked_once_its_time_is_over(owner: Tenant) -> None:
    session = switched_on(owner)
    unused_for(session, 12, warned_seconds_ago=61)
    assert (idle_policy.run_due(), idle_policy.run_due()) == (1, 0)
    (operation,) = parkings(session)
    assert operation.parameters["reason"] == "idle"
    worker.work(operation.id)
    assert idle_policy.read(session).state == "not_running"


def test_use_after_the_warning_keeps_the_session(owner: Tenant) -> None:
    session = switched_on(owner)
    unused_for(session, 12, warned_seconds_ago=61)
    activity.touch(session)
    assert idle_policy.read(session).state == "counting"
    assert idle_policy.run_due() == 0
    assert events(session)[-1] == "session.idle_ended"
    assert not parkings(session)


def test_use_between_the_parkings_request_and_its_beginning_is_seen(owner: Tenant) -> None:
    session = switched_on(owner)
    unused_for(session, 12, warned_seconds_ago=61)
    idle_policy.run_due()
    (operation,) = parkings(session)
    assert idle_policy.still_idle(session, operation)
    activity.touch(session)
    assert not idle_policy.still_idle(session, operation)


def test_a_command_is_use_for_as_long_as_it_runs(owner: Tenant) -> None:
    session = switched_on(owner)
    sessions.execute(session, argv=["sleep", "3600"], timeout_seconds=3600, asked=Asked())
    unused_for(session, 50, warned_seconds_ago=2000)
    assert idle_policy.run_due() == 0
    assert idle_policy.read(session).state == "counting"
    assert not parkings(session)


def test_a_command_that_is_asked_for_is_use(owner: Tenant) -> None:
    session = switched_on(owner)
    unused_for(session, 12, warned_seconds_ago=61)
    sessions.execute(session, argv=["true"], timeout_seconds=5, asked=Asked())
    Operation.objects.update(state="succeeded")
    assert idle_policy.run_due() == 0
    assert not parkings(session)


def test_reading_a_session_and_saving_it_are_not_use(owner: Tenant) -> None:
    session = switched_on(owner)
    unused_for(session, 9)
    before = IdlePolicy.objects.get().active_at
    worker.work(sessions.checkpoint(session, stop=False, reason="", asked=Asked()).id)
    assert IdlePolicy.objects.get().active_at == before


def test_parking_waits_for_an_operation_and_says_for_which(owner: Tenant) -> None:
    session = switched_on(owner)
    busy = sessions.checkpoint(session, stop=False, reason="mine", asked=Asked())
    unused_for(session, 12, warned_seconds_ago=61)
    assert idle_policy.run_due() == 0
    seen = idle_policy.read(session)
    assert (seen.state, busy.id in seen.policy.deferred_reason) == ("deferred", True)
    Operation.objects.update(state="succeeded")
    IdlePolicy.objects.update(look_at=Now())
    assert idle_policy.run_due() == 1


def test_a_parking_that_failed_is_not_asked_for_again_at_once(owner: Tenant) -> None:
    session = switched_on(owner)
    unused_for(session, 12, warned_seconds_ago=61)
    idle_policy.run_due()
    Operation.objects.update(state="failed")
    assert idle_policy.run_due() == 0
    IdlePolicy.objects.update(look_at=Now())
    assert idle_policy.run_due() == 1


def test_a_resumed_session_counts_as_used(owner: Tenant) -> None:
    session = switched_on(owner, state=SessionState.PARKED, saved=True)
    assert idle_policy.read(session).state == "not_running"
    IdlePolicy.objects.update(active_at=Now() - timedelta(days=3))
    worker.work(sessions.resume(session, checkpoint_id=None, asked=Asked()).id)
    assert idle_policy.run_due() == 0
    assert idle_policy.read(session).state == "counting"


def test_uses_close_together_are_written_once(owner: Tenant) -> None:
    session = switched_on(owner)
    before = IdlePolicy.objects.get().active_at
    activity.touch(session)
    assert IdlePolicy.objects.get().active_at == before


def test_a_change_for_another_revision_is_refused_and_the_same_again_is_answered(owner: Tenant) -> None:
    session = session_row(owner.account)
    wanted = {"enabled": True, "idle_minutes": 5, "warning_seconds": 30}
    with pytest.raises(Conflict):
        idle_policy.change(session, **wanted, expected_revision=99)  # type: ignore[arg-type]
    first = idle_policy.change(session, **wanted, expected_revision=session.revision)  # type: ignore[arg-type]
    again = idle_policy.change(session, **wanted, expected_revision=session.revision)  # type: ignore[arg-type]
    assert first.session_revision == again.session_revision == session.revision + 1


@pytest.mark.parametrize(("minutes", "seconds"), [(0, 60), (1441, 60), (5, 9), (5, 3601)])
def test_times_outside_the_bounds_are_refused(owner: Tenant, minutes: int, seconds: int) -> None:
    session = session_row(owner.account)
    with pytest.raises(Invalid):
        idle_policy.change(session, enabled=True, idle_minutes=minutes, warning_seconds=seconds, expected_revision=session.revision)
