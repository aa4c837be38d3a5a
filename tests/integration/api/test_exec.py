"""POST /api/sessions/{id}/exec."""

import pytest

from sessions_app.models import Operation
from sessions_app.states import SessionState
from tests.support.api import Caller
from tests.support.fleet import HOST, Tenant, session_row
from tests.support.worker import work


def test_a_line_runs_through_the_guests_shell_and_answers_with_its_outcome(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    accepted = api("POST", f"/api/sessions/{session.id}/exec", {"Cmd": "echo 'a  b'; exit 3"})
    operation = work(accepted.json()["data"]["operation_id"])
    assert operation.parameters == {"argv": ["/bin/sh", "-c", "echo 'a  b'; exit 3"], "timeout_seconds": 60}
    assert operation.queue == f"io.{HOST}"
    outcome = api("GET", f"/api/operations/{operation.id}").json()["data"]["response"]
    assert {"output", "error", "exit_code", "stdout", "stderr", "truncated"} <= set(outcome)


def test_words_reach_the_guest_as_they_are(api: Caller, owner: Tenant) -> None:
    words = ["python", "--help", "", "a b", "$HOME", "'", '"', "\\", "line\nbreak", "ünï", "*", "-"]
    accepted = api("POST", f"/api/sessions/{session_row(owner.account).id}/exec", {"Argv": words, "Timeout": 7})
    parameters = Operation.objects.get(id=accepted.json()["data"]["operation_id"]).parameters
    assert parameters == {"argv": words, "timeout_seconds": 7}


def test_a_command_is_never_attempted_twice(api: Caller, owner: Tenant) -> None:
    accepted = api("POST", f"/api/sessions/{session_row(owner.account).id}/exec", {"Cmd": "true"})
    assert Operation.objects.get(id=accepted.json()["data"]["operation_id"]).max_attempts == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"Cmd": "true", "Argv": ["true"]},
        {"Cmd": ""},
        {"Cmd": "x" * (64 * 1024 + 1)},
        {"Cmd": "nul\x00"},
        {"Cmd": ["true"]},
        {"Argv": []},
        {"Argv": [""]},
        {"Argv": "true"},
        {"Argv": ["true", 1]},
        {"Argv": ["w"] * 1025},
        {"Argv": [["true"]]},
        {"Cmd": "true", "Timeout": 0},
        {"Cmd": "true", "Timeout": 3601},
        {"Cmd": "true", "Timeout": 1.5},
        {"Cmd": "true", "timeout": 5},
    ],
)
def test_a_command_that_is_not_one_runs_nothing(api: Caller, owner: Tenant, body: object) -> None:
    refused = api("POST", f"/api/sessions/{session_row(owner.account).id}/exec", body)
    assert (refused.status_code, refused.json()["error"]) == (400, "ks_invalid")
    assert not Operation.objects.exists()


@pytest.mark.parametrize("state", [SessionState.PARKED, SessionState.PROVISIONING, SessionState.FAILED, SessionState.DELETING])
def test_a_session_that_does_not_run_is_not_woken_by_a_command(api: Caller, owner: Tenant, state: SessionState) -> None:
    session = session_row(owner.account, state, saved=True)
    refused = api("POST", f"/api/sessions/{session.id}/exec", {"Cmd": "true"})
    assert (refused.status_code, refused.json()["error"]) == (409, "ks_session_not_running")
    session.refresh_from_db()
    assert session.runtime_state == state


def test_a_command_may_run_beside_a_save(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    api("POST", f"/api/sessions/{session.id}/checkpoint", {})
    assert api("POST", f"/api/sessions/{session.id}/exec", {"Cmd": "true"}).status_code == 202
