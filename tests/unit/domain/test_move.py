"""Steps of a session from state to state: guarded, with their event, and refused by naming both states."""

import itertools
from typing import Any

import pytest
from django.db import transaction

from sessions_app.errors import WrongState
from sessions_app.models import Session, SessionEvent
from sessions_app.services import session as sessions
from sessions_app.states import SESSION_TRANSITIONS, SessionState
from tests.support.fleet import Tenant, session_row

EDGES = [(a, b) for a, b in itertools.product(SessionState, SessionState) if b in SESSION_TRANSITIONS[a]]
NO_EDGES = [(a, b) for a, b in itertools.product(SessionState, SessionState) if b not in SESSION_TRANSITIONS[a]]


def _move(session: Session, to: SessionState, expected: "list[SessionState] | None" = None, **changes: Any) -> None:
    with transaction.atomic():
        sessions.move(session, expected or list(SessionState), to, source="test", type_="test.moved", **changes)


@pytest.mark.parametrize(("before", "to"), EDGES)
def test_an_edge_is_walked_with_its_event_and_a_new_revision(owner: Tenant, before: SessionState, to: SessionState) -> None:
    session = session_row(owner.account, before)
    _move(session, to)
    assert (session.runtime_state, session.revision) == (to, 2)
    event = SessionEvent.objects.get(session=session)
    assert (event.number, event.epoch, event.type, event.source) == (1, 1, "test.moved", "test")


@pytest.mark.parametrize(("before", "to"), NO_EDGES)
def test_where_there_is_no_edge_nothing_moves_and_both_states_are_named(owner: Tenant, before: SessionState, to: SessionState) -> None:
    session = session_row(owner.account, before)
    with pytest.raises(WrongState, match=rf"from {before} to {to}"):
        _move(session, to)
    session.refresh_from_db()
    assert (session.runtime_state, session.revision) == (before, 1)
    assert not SessionEvent.objects.exists()


def test_a_state_that_was_not_expected_is_not_left(owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.PARKED)
    with pytest.raises(WrongState, match="from parked to resuming"):
        _move(session, SessionState.RESUMING, [SessionState.FAILED])


def test_a_step_for_an_older_epoch_is_refused(owner: Tenant) -> None:
    session = session_row(owner.account)
    Session.objects.filter(id=session.id).update(epoch=2)
    with pytest.raises(WrongState):
        _move(session, SessionState.CHECKPOINTING)


def test_what_changes_with_a_step_is_written_with_it_or_not_at_all(owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.STOPPING)
    with pytest.raises(WrongState):
        _move(session, SessionState.RUNNING, host_id="")
    assert Session.objects.get(id=session.id).host_id
    _move(session, SessionState.PARKED, host_id="", park_reason="requested")
    session.refresh_from_db()
    assert (session.host_id, session.park_reason) == ("", "requested")


def test_a_final_state_is_final() -> None:
    assert [state for state in SessionState if not SESSION_TRANSITIONS[state]] == [SessionState.DELETED]
