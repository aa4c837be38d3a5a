"""Fork over HTTP: an array of children, or a refusal after which nothing exists."""

from urllib.parse import quote

import pytest

from sessions_app.models import Operation, Session
from sessions_app.services import steering, steps
from sessions_app.states import SessionState
from tests.support.api import Caller, new_key
from tests.support.fleet import HOST, Tenant, checkpoint_row, session_row
from tests.support.worker import work


def _path(session: Session, query: str = "") -> str:
    return f"/api/sessions/{session.id}/fork{query}"


def test_the_answer_is_an_array_of_children_that_name_their_parent(api: Caller, owner: Tenant) -> None:
    session, key = session_row(owner.account), new_key()
    work(api("POST", _path(session, "?n=3"), key=key).json()["data"]["operation_id"])
    answer = api("POST", _path(session, "?n=3"), key=key)
    assert (answer.status_code, answer["KS-Operation-Replayed"]) == (201, "true")
    assert [child["parent"] for child in answer.json()] == [session.id] * 3
    rows = api("GET", "/api/v2/sessions?source=fleet").json()["data"]["items"]
    assert {row["id"] for row in rows if row["parent"] == session.id} == {child["id"] for child in answer.json()}


def test_without_a_number_there_is_one_child(api: Caller, owner: Tenant) -> None:
    operation = work(api("POST", _path(session_row(owner.account))).json()["data"]["operation_id"])
    assert len(operation.response or []) == 1


def test_a_running_session_is_to_be_saved_first_and_a_parked_one_gives_its_head(api: Caller, owner: Tenant) -> None:
    running, parked = session_row(owner.account, saved=True), session_row(owner.account, SessionState.PARKED, saved=True, host_id="")
    asked = [Operation.objects.get(id=api("POST", _path(one)).json()["data"]["operation_id"]) for one in (running, parked)]
    assert [one.parameters["checkpoint_id"] for one in asked] == ["", parked.head_checkpoint_id]
    assert [(one.host_id, one.reserved_bytes) for one in asked] == [(HOST, 0)] * 2, "each child is placed once it is made"


def test_a_named_checkpoint_is_taken_even_of_a_session_that_runs(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    older, _newest = checkpoint_row(session), checkpoint_row(session)
    operation = api("POST", _path(session), {"Checkpoint": older.id}).json()["data"]["operation_id"]
    assert Operation.objects.get(id=operation).parameters["checkpoint_id"] == older.id


@pytest.mark.parametrize("n", ["0", "9", "-1", "two", "1.5", "1e1"])
def test_any_other_number_than_one_to_eight_is_refused(api: Caller, owner: Tenant, n: str) -> None:
    refused = api("POST", _path(session_row(owner.account), f"?n={n}"))
    assert (refused.status_code, refused.json()["error"]) == (400, "ks_invalid")
    assert not Operation.objects.exists()


def test_steers_are_kept_sealed_until_the_children_are_there(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    for wrong in ("go left", '["one", "two"]', "[1]", '[" "]'):
        assert api("POST", _path(session, "?n=3&steers=" + quote(wrong))).status_code == 400
    assert not Operation.objects.exists()
    assert api("POST", _path(session, "?n=1&steers=" + quote('["go left"]'))).status_code == 202
    asked = Operation.objects.get()
    steer = steering.unpacked(asked.parameters, 0)
    assert steer is not None
    assert steps.unseal.call(owner.account.id, steer.sealed) == b"go left"
    assert "go left" not in str(Operation.objects.values())


def test_a_session_without_a_checkpoint_that_does_not_run_has_nothing_to_fork(api: Caller, owner: Tenant) -> None:
    refused = api("POST", _path(session_row(owner.account, SessionState.FAILED)))
    assert (refused.status_code, refused.json()["error"]) == (409, "ks_no_checkpoint")


@pytest.mark.parametrize("state", [SessionState.PROVISIONING, SessionState.CHECKPOINTING, SessionState.RESUMING, SessionState.DELETING])
def test_a_session_on_its_way_to_another_state_is_not_forked(api: Caller, owner: Tenant, state: SessionState) -> None:
    refused = api("POST", _path(session_row(owner.account, state, saved=True)))
    assert (refused.status_code, refused.json()["runtime_state"]) == (409, state.value)


def test_a_body_with_another_field_is_refused(api: Caller, owner: Tenant) -> None:
    assert api("POST", _path(session_row(owner.account)), {"N": 3}).status_code == 400
