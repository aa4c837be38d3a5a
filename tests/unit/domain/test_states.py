"""The tables themselves: whole, and the page that is written from them."""

import pytest
from django.core.management import CommandError, call_command

from checkpoints_app.states import CHECKPOINT_TRANSITIONS, CheckpointState
from sessions_app.states import (
    ALLOWED_FROM,
    DEVICE_GRANT_TRANSITIONS,
    OPERATION_ACTIVE,
    OPERATION_FINAL,
    OPERATION_TRANSITIONS,
    SESSION_TRANSITIONS,
    DeviceGrantState,
    OperationKind,
    OperationState,
    SessionState,
)


def test_every_state_has_its_row() -> None:
    assert set(SESSION_TRANSITIONS) == set(SessionState)
    assert set(OPERATION_TRANSITIONS) == set(OperationState)
    assert set(CHECKPOINT_TRANSITIONS) == set(CheckpointState)
    assert set(DEVICE_GRANT_TRANSITIONS) == set(DeviceGrantState)
    assert set(ALLOWED_FROM) == set(OperationKind)


def test_final_operations_go_nowhere_and_active_ones_do() -> None:
    assert {state for state in OperationState if not OPERATION_TRANSITIONS[state]} == OPERATION_FINAL
    assert set(OperationState) == OPERATION_ACTIVE | OPERATION_FINAL


@pytest.mark.parametrize("state", [state for state in SessionState if state != SessionState.DELETED])
def test_every_session_can_be_deleted(state: SessionState) -> None:
    assert state == SessionState.DELETING or SessionState.DELETING in SESSION_TRANSITIONS[state]


@pytest.mark.parametrize("table", [SESSION_TRANSITIONS, CHECKPOINT_TRANSITIONS, OPERATION_TRANSITIONS, DEVICE_GRANT_TRANSITIONS])
def test_every_state_can_be_reached(table: dict) -> None:
    first, *_ = table
    seen, edge = {first}, {first}
    while edge:
        edge = {after for state in edge for after in table[state]} - seen
        seen |= edge
    assert seen == set(table)


def test_the_page_of_states_is_current() -> None:
    call_command("write_states", check=True)


def test_a_page_that_is_not_current_is_told(tmp_path) -> None:
    page = tmp_path / "states.md"
    call_command("write_states", file=page)
    page.write_text(page.read_text().replace("parked", "packed"))
    with pytest.raises(CommandError, match="write_states"):
        call_command("write_states", check=True, file=page)
