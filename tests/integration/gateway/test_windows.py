"""The window of an epoch: what of the record may answer a machine that goes on from a checkpoint."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from gateway_app.models import EpochOrigin, WindowEntry
from gateway_app.services import fork as forks
from gateway_app.services import window
from gateway_app.states import CallState
from sessions_app.models import Session
from sessions_app.services import steps
from tests.integration.gateway.kept import call_row
from tests.support.fleet import Tenant, checkpoint_row, session_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def session(owner: Tenant) -> Session:
    return session_row(owner.account, epoch=1)


def saved(session: Session, tick: int, *, epoch: int | None = None) -> str:
    return checkpoint_row(session, watermarks={"calls": tick}, source_epoch=session.epoch if epoch is None else epoch).id


def goes_on(session: Session, checkpoint_id: str) -> dict[str, str]:
    """The session's next epoch begins from the checkpoint; what its window has: why, by call."""
    Session.objects.filter(id=session.id).update(epoch=session.epoch + 1)
    session.refresh_from_db()
    window.open_epoch(session, checkpoint_id)
    rows = WindowEntry.objects.filter(session=session, epoch=session.epoch).order_by("order")
    return dict(rows.values_list("call_id", "why"))


def test_a_checkpoints_tick_lies_between_the_calls_before_it_and_after_it(session: Session) -> None:
    first, second = (window.watermark(session.id)["calls"] for _ in range(2))
    assert first < second


def test_calls_in_flight_unread_and_lost_are_in_it_and_what_was_followed_is_not(session: Session) -> None:
    followed = call_row(session, 1, 2)
    unread, in_flight = call_row(session, 3, 5), call_row(session, 4, 12)
    lost, broken, running = call_row(session, 13, 14), call_row(session, 15, 16, state=CallState.CUT), call_row(session, 17)
    found = goes_on(session, saved(session, 10))
    assert found == {unread.id: "unread", in_flight.id: "in_flight", lost.id: "lost", running.id: "lost"}
    assert followed.id not in found
    assert broken.id not in found


def test_what_a_machine_did_on_a_way_that_was_left_before_is_not_lost_from_here(session: Session) -> None:
    early, late = saved(session, 5), saved(session, 10)
    after_late = call_row(session, 11, 12)
    goes_on(session, early)
    elsewhere = call_row(session, 20, 21, epoch=2)
    assert goes_on(session, late) == {after_late.id: "lost"}
    again = call_row(session, 30, 31, epoch=3)
    assert set(goes_on(session, early)) == {after_late.id, elsewhere.id, again.id}


def test_a_call_of_a_way_that_was_left_is_not_in_flight_on_the_way_that_was_taken(session: Session) -> None:
    early = saved(session, 5)
    left = call_row(session, 6, 30)
    assert goes_on(session, early) == {left.id: "lost"}
    mine = call_row(session, 10, 30_000, epoch=2)
    assert goes_on(session, saved(session, 20)) == {mine.id: "in_flight"}


def test_a_fork_has_its_parents_line_up_to_the_fork_and_nothing_that_came_after(session: Session, owner: Tenant) -> None:
    waited_for, point = call_row(session, 4, 12), saved(session, 10)
    after = call_row(session, 13, 14)
    child = session_row(owner.account, epoch=0, parent_id=session.id, fork_checkpoint_id=point)
    forks.pass_on(session, child, point=steps.saved_point.call(session, point), steer=None)
    own = saved(child, 10)
    assert goes_on(child, own) == {waited_for.id: "in_flight"}
    mine = call_row(child, 15, 16)
    assert goes_on(child, own) == {waited_for.id: "in_flight", mine.id: "lost"}
    assert goes_on(child, saved(child, 17, epoch=1)) == {mine.id: "unread"}
    assert after.id not in set(WindowEntry.objects.values_list("call_id", flat=True))


def test_to_open_a_window_again_changes_nothing_in_it(session: Session) -> None:
    call_row(session, 4, 12)
    point = saved(session, 10)
    goes_on(session, point)
    WindowEntry.objects.update(consumed_at=Now())
    window.open_epoch(session, point)
    assert WindowEntry.objects.get().consumed_at is not None
    assert EpochOrigin.objects.count() == 1


def test_a_checkpoint_without_a_tick_opens_no_window(session: Session) -> None:
    call_row(session, 4, 12)
    assert goes_on(session, checkpoint_row(session).id) == {}


def test_ticks_go_on_behind_a_checkpoint_that_a_restored_database_has_not_drawn(session: Session) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM gateway_app_tick")
        drawn = cursor.fetchone()[0]
    goes_on(session, saved(session, drawn + 1000))
    assert window.watermark(session.id)["calls"] > drawn + 1000


def test_windows_that_were_over_long_ago_are_forgotten(session: Session) -> None:
    call = call_row(session, 4, 12)
    goes_on(session, saved(session, 10))
    assert window.forget_old() == 0
    WindowEntry.objects.update(open_until=Now() - timedelta(days=2))
    assert (window.forget_old(), WindowEntry.objects.filter(call=call).exists()) == (1, False)
