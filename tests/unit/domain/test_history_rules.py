"""The database itself keeps a history: it refuses what would change it, whoever asks."""

import pytest
from django.db import IntegrityError, connection, transaction

from sessions_app.models import Session, SessionEvent
from sessions_app.services import event
from sessions_app.states import SessionState
from tests.support.fleet import Tenant, session_row


@pytest.fixture
def session(owner: Tenant) -> Session:
    made = session_row(owner.account)
    with transaction.atomic():
        event.append(made.id, "first", source="test")
    return made


def test_a_line_is_never_changed_in_any_state(session: Session) -> None:
    for state in SessionState:
        Session.objects.filter(id=session.id).update(runtime_state=state)
        with pytest.raises(IntegrityError, match="append-only: UPDATE"), transaction.atomic():
            SessionEvent.objects.update(type="another")
    assert SessionEvent.objects.get().type == "first"


@pytest.mark.parametrize("state", list(SessionState))
def test_a_line_goes_only_while_its_session_is_deleted(session: Session, state: SessionState) -> None:
    Session.objects.filter(id=session.id).update(runtime_state=state)
    if state in (SessionState.DELETING, SessionState.DELETED):
        SessionEvent.objects.all().delete()
        assert not SessionEvent.objects.exists()
        return
    with pytest.raises(IntegrityError, match="append-only: DELETE"), transaction.atomic():
        SessionEvent.objects.all().delete()
    with pytest.raises(IntegrityError, match="append-only: DELETE"), transaction.atomic():
        session.delete()
    assert SessionEvent.objects.count() == 1


def test_a_table_full_of_histories_is_not_emptied_at_once(session: Session) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(IntegrityError, match="append-only: TRUNCATE"), transaction.atomic():
            cursor.execute("TRUNCATE sessions_app_sessionevent")
    assert SessionEvent.objects.count() == 1
