"""Save, pause, resume: both surfaces of the same operations."""

import pytest

from checkpoints_app.states import CheckpointState
from sessions_app.errors import SaveFailed
from sessions_app.models import Operation, Session
from sessions_app.states import SessionState
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, checkpoint_row, session_row
from tests.support.worker import fail, work


def _operation(response: object) -> str:
    assert response.status_code == 202, response.content  # type: ignore[attr-defined]
    return str(response.json()["data"]["operation_id"])  # type: ignore[attr-defined]


def test_a_live_save_leaves_the_session_running_with_a_valid_point(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    operation = _operation(api("POST", f"/api/sessions/{session.id}/checkpoint", {"Stop": False, "Reason": "noon"}))
    work(operation)
    row = api("GET", f"/api/v2/sessions/{session.id}").json()["data"]
    points = api("GET", f"/api/v2/sessions/{session.id}/checkpoints").json()["data"]["items"]
    assert (row["runtime_state"], row["last_checkpoint_id"]) == ("running", points[0]["id"])
    assert (points[0]["state"], points[0]["reason"], points[0]["source_epoch"]) == ("valid", "noon", 1)


def test_save_and_stop_then_resume_gives_a_new_epoch(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    work(_operation(api("POST", f"/api/sessions/{session.id}/checkpoint", {"Stop": True})))
    assert api("GET", f"/api/v2/sessions/{session.id}").json()["data"]["runtime_state"] == "parked"
    work(_operation(api("POST", f"/api/sessions/{session.id}/resume", {})))
    row = api("GET", f"/api/v2/sessions/{session.id}").json()["data"]
    assert (row["runtime_state"], row["execution_epoch"]) == ("running", 2)


def test_pause_is_a_save_with_stop_told_in_v2_words(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    key = "ksop_" + "1" * 32
    work(_operation(api("POST", f"/api/v2/sessions/{session.id}/pause", {}, key=key)))
    outcome = api("POST", f"/api/v2/sessions/{session.id}/pause", {}, key=key).json()
    assert outcome["schema_version"] == 2
    assert (outcome["data"]["runtime_state"], outcome["data"]["checkpoint_safe"]) == ("parked", True)
    assert outcome["data"]["checkpoint_id"]


def test_v2_resume_takes_the_named_checkpoint(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.PARKED, host_id="")
    older, _newest = checkpoint_row(session), checkpoint_row(session)
    operation = _operation(api("POST", f"/api/v2/sessions/{session.id}/resume", {"checkpoint_id": older.id}))
    assert Operation.objects.get(id=operation).parameters == {"checkpoint_id": older.id}


def test_resume_without_any_checkpoint_is_refused(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.FAILED)
    refused = api("POST", f"/api/sessions/{session.id}/resume", {})
    assert (refused.status_code, refused.json()["error"]) == (409, "ks_no_checkpoint")


def test_resume_from_a_corrupt_checkpoint_is_refused_with_its_state(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True)
    corrupt = checkpoint_row(session, CheckpointState.CORRUPT)
    refused = api("POST", f"/api/sessions/{session.id}/resume", {"Checkpoint": corrupt.id})
    assert (refused.status_code, refused.json()["error"], refused.json()["checkpoint_state"]) == (
        409,
        "ks_checkpoint_not_restorable",
        "corrupt",
    )


def test_resume_from_another_sessions_checkpoint_is_no_such_checkpoint(api: Caller, owner: Tenant, stranger: Tenant) -> None:
    theirs = checkpoint_row(session_row(stranger.account))
    session = session_row(owner.account, SessionState.PARKED, saved=True)
    refused = api("POST", f"/api/sessions/{session.id}/resume", {"Checkpoint": theirs.id})
    assert (refused.status_code, refused.json()["error"]) == (404, "ks_not_found")


def test_resume_while_stopping_is_told_by_name(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.STOPPING, saved=True)
    refused = api("POST", f"/api/v2/sessions/{session.id}/resume", {})
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_stopping")


@pytest.mark.parametrize(
    "state", [state for state in SessionState if state not in (SessionState.RUNNING, SessionState.STOPPING, SessionState.DELETED)]
)
def test_a_session_that_does_not_run_cannot_be_saved(api: Caller, owner: Tenant, state: SessionState) -> None:
    session = session_row(owner.account, state)
    refused = api("POST", f"/api/sessions/{session.id}/checkpoint", {})
    assert (refused.status_code, refused.json()["error"], refused.json()["runtime_state"]) == (409, "ks_session_not_running", state.value)
    assert not Operation.objects.exists()


def test_a_second_operation_while_one_runs_is_refused_and_names_it(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    first = _operation(api("POST", f"/api/sessions/{session.id}/checkpoint", {}))
    refused = api("POST", f"/api/v2/sessions/{session.id}/pause", {})
    assert (refused.status_code, error_of(refused)["code"], error_of(refused)["operation_id"]) == (409, "ks_conflict", first)
    busy_with = api("GET", f"/api/v2/sessions/{session.id}").json()["data"]["operation"]
    assert (busy_with["id"], busy_with["kind"], busy_with["state"]) == (first, "checkpoint", "queued")


def test_a_failed_save_is_told_as_the_worker_told_it(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    key = "ksop_" + "2" * 32
    operation = _operation(api("POST", f"/api/v2/sessions/{session.id}/pause", {}, key=key))
    fail(operation, SaveFailed("Not saved.", next_action="Save again.", facts={"runtime_state": "running", "checkpoint_recorded": False}))
    seen = api("GET", f"/api/operations/{operation}").json()["data"]
    assert (seen["state"], seen["http_status"], seen["error"]["type"]) == ("failed", 500, "ks_save_failed")
    replayed = api("POST", f"/api/v2/sessions/{session.id}/pause", {}, key=key)
    assert (replayed.status_code, error_of(replayed)["code"], error_of(replayed)["checkpoint_recorded"]) == (500, "ks_save_failed", False)


def test_a_reason_that_is_too_long_is_refused(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    assert api("POST", f"/api/sessions/{session.id}/checkpoint", {"Reason": "r" * 201}).status_code == 400
    assert Session.objects.get(id=session.id).runtime_state == "running"
