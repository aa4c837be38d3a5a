"""Saved work continues only where the history reaches the checkpoint; if somebody goes on all the same, it says itself what is lost."""

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions_app.errors import RecoveryRequired
from sessions_app.models import Session
from sessions_app.services import event, reconcile, steps
from tests.support.fleet import Tenant, checkpoint_row, session_row

FEW = st.integers(0, 12)


def _with_events(owner: Tenant, count: int, epoch: int) -> Session:
    session = session_row(owner.account, epoch=epoch)
    with transaction.atomic():
        for _ in range(count):
            event.append(session.id, "test", source="test")
    session.refresh_from_db()
    return session


def _reconciles(session: Session, checkpoint_id: str) -> bool:
    try:
        for step in steps.reconcile:
            step(session, checkpoint_id)
    except RecoveryRequired:
        return False
    return True


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(watermark=FEW, source_epoch=FEW, count=FEW, epoch=FEW)
def test_a_checkpoint_reconciles_exactly_if_neither_its_events_nor_its_epoch_lie_beyond_the_session(
    owner: Tenant, watermark: int, source_epoch: int, count: int, epoch: int
) -> None:
    session = _with_events(owner, count, epoch)
    point = checkpoint_row(session, event_watermark=watermark, source_epoch=source_epoch)
    agrees = watermark <= count and source_epoch <= epoch
    assert _reconciles(session, point.id) == agrees
    with transaction.atomic():
        reconcile.fill(session.id, event_watermark=watermark, source_epoch=source_epoch, source="test")
    session.refresh_from_db()
    assert _reconciles(session, point.id)
    assert (session.event_count, session.epoch) == (max(count, watermark), max(epoch, source_epoch))
    lines = list(session.events.order_by("number").values_list("number", "type"))
    assert lines == [(number, "test" if number <= count else reconcile.LOST) for number in range(1, session.event_count + 1)]


def test_the_refusal_says_what_is_not_known_and_what_to_do(owner: Tenant) -> None:
    session = _with_events(owner, 3, 1)
    point = checkpoint_row(session, event_watermark=9, source_epoch=4)
    with pytest.raises(RecoveryRequired, match=r"event 9 of epoch 4.*event 3 of epoch 1.*Nothing was started") as refused:
        reconcile.reconcile(session, point.id)
    assert f"/api/v2/sessions/{session.id}/restore" in refused.value.next_action
    assert refused.value.facts["event_watermark"] == 9


def test_a_history_is_not_filled_beyond_all_measure(owner: Tenant) -> None:
    session = _with_events(owner, 1, 1)
    with pytest.raises(RecoveryRequired, match="Nothing was done"), transaction.atomic():
        reconcile.fill(session.id, event_watermark=reconcile.LOST_LINES + 2, source_epoch=1, source="test")
    assert session.events.count() == 1


def test_numbers_go_on_behind_the_lost_ones(owner: Tenant) -> None:
    session = _with_events(owner, 1, 1)
    with transaction.atomic():
        reconcile.fill(session.id, event_watermark=3, source_epoch=1, source="test")
        event.append(session.id, "after", source="test")
    assert list(session.events.order_by("number").values_list("number", "type")) == [
        (1, "test"),
        (2, "history.lost"),
        (3, "history.lost"),
        (4, "after"),
    ]
