"""History is numbered from 1 without gaps, whatever is written at once and whatever is rolled back."""

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions_app.models import SessionEvent
from sessions_app.services import event
from tests.support.fleet import Tenant, session_row
from tests.support.threads import at_once


def _numbers(session_id: str) -> list[int]:
    return list(SessionEvent.objects.filter(session_id=session_id).order_by("number").values_list("number", flat=True))


@pytest.mark.django_db(transaction=True)
def test_an_event_outside_its_transaction_is_refused(owner: Tenant) -> None:
    session = session_row(owner.account)
    with pytest.raises(RuntimeError, match="transaction"):
        event.append(session.id, "test", source="test")
    assert _numbers(session.id) == []


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.lists(st.booleans(), max_size=12))
def test_a_rollback_gives_its_number_back(owner: Tenant, kept: list[bool]) -> None:
    session = session_row(owner.account)
    for keep in kept:
        try:
            with transaction.atomic():
                event.append(session.id, "test", source="test")
                if not keep:
                    raise _Undo
        except _Undo:
            pass
    assert _numbers(session.id) == list(range(1, sum(kept) + 1))


class _Undo(Exception):
    pass


@pytest.mark.django_db(transaction=True)
def test_writers_at_once_leave_no_gap_and_no_double_even_if_some_roll_back(owner: Tenant) -> None:
    session = session_row(owner.account)

    def write(number: int) -> None:
        for turn in range(10):
            try:
                with transaction.atomic():
                    event.append(session.id, f"writer.{number}", source="test")
                    if (turn + number) % 3 == 0:
                        raise _Undo
            except _Undo:
                pass

    at_once(6, write)
    kept = sum((turn + number) % 3 != 0 for number in range(6) for turn in range(10))
    assert _numbers(session.id) == list(range(1, kept + 1))


def test_an_event_is_stamped_with_the_epoch_and_its_subject(owner: Tenant) -> None:
    session = session_row(owner.account, epoch=4)
    with transaction.atomic():
        event.append(session.id, "checkpoint.published", {"bytes": 1}, source="operation/x", subject=("checkpoint", "ck_1"))
    row = SessionEvent.objects.get()
    assert (row.epoch, row.subject_type, row.subject_id, row.payload) == (
        4,
        "checkpoint",
        "ck_1",
        {"type": "checkpoint.published", "bytes": 1},
    )


def test_sessions_are_numbered_apart(owner: Tenant) -> None:
    first, second = session_row(owner.account), session_row(owner.account)
    with transaction.atomic():
        for session in (first, second, first):
            event.append(session.id, "test", source="test")
    assert (_numbers(first.id), _numbers(second.id)) == ([1, 2], [1])
