"""Forks by plan over HTTP: a plan creates nothing, and only its digest makes exactly what it showed."""

from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from checkpoints_app.models import Checkpoint
from checkpoints_app.states import CheckpointState
from sessions_app.models import Operation, Plan, Session
from sessions_app.states import SessionState
from tests.support.api import Caller, error_of, new_key
from tests.support.fleet import Tenant, checkpoint_row, session_row
from tests.support.worker import work


@pytest.fixture
def session(owner: Tenant) -> Session:
    return session_row(owner.account, saved=True)


def _plan(api: Caller, session: Session, *, children: int = 2, key: str | None = None) -> Any:
    body = {"checkpoint_id": session.head_checkpoint_id, "children": children}
    return api("POST", f"/api/v2/sessions/{session.id}/fork-plan", body, key=key)


def _execute(api: Caller, session: Session, plan: dict[str, Any], *, key: str | None = None, digest: str = "") -> Any:
    body = {"plan_id": plan["id"], "plan_digest": digest or plan["plan_digest"]}
    return api("POST", f"/api/v2/sessions/{session.id}/fork", body, key=key)


def _code(answer: Any) -> tuple[int, str]:
    return answer.status_code, error_of(answer)["code"]


def test_a_plan_shows_the_contracts_sections_and_creates_nothing(api: Caller, session: Session) -> None:
    answer = _plan(api, session)
    data = answer.json()["data"]
    assert answer.status_code == 201
    assert {"id", "checkpoint_id", "children", "plan", "plan_digest", "state", "expires_at"} <= set(data)
    assert set(data["plan"]) == {"source", "children", "runtime", "keys", "pending", "approvals", "advisers", "selection"}
    assert (data["checkpoint_id"], data["children"], data["state"]) == (session.head_checkpoint_id, 2, "planned")
    assert (Session.objects.count(), Operation.objects.count(), Checkpoint.objects.count()) == (1, 0, 1)


def test_a_plan_is_made_once_per_key(api: Caller, session: Session) -> None:
    key = new_key()
    first, again = _plan(api, session, key=key), _plan(api, session, key=key)
    assert (again.json(), again["KS-Operation-Replayed"]) == (first.json(), "true")
    assert Plan.objects.count() == 1


def test_the_plan_executed_makes_its_children_and_a_repeated_key_answers_as_the_first(api: Caller, session: Session) -> None:
    plan, key = _plan(api, session).json()["data"], new_key()
    operation = work(_execute(api, session, plan, key=key).json()["data"]["operation_id"])
    again = _execute(api, session, plan, key=key)
    data = again.json()["data"]
    assert (again.status_code, again["KS-Operation-Replayed"], data) == (201, "true", operation.response)
    assert data["plan_id"] == plan["id"]
    assert {child["session_id"] for child in data["children"]} == set(
        Session.objects.filter(parent_id=session.id).values_list("id", flat=True)
    )
    assert {(child["runtime_state"], len(child["agents"])) for child in data["children"]} == {("parked", 0)}
    assert _code(_execute(api, session, plan)) == (409, "ks_plan_executed")


def test_another_digest_forks_nothing_and_the_right_one_still_does(api: Caller, session: Session) -> None:
    plan = _plan(api, session).json()["data"]
    assert _code(_execute(api, session, plan, digest="0" * 64)) == (409, "ks_plan_digest_mismatch")
    assert not Operation.objects.exists()
    assert _execute(api, session, plan).status_code == 202


def test_a_session_that_moved_makes_its_plan_stale_and_both_revisions_are_told(api: Caller, session: Session) -> None:
    plan = _plan(api, session).json()["data"]
    Session.objects.filter(id=session.id).update(revision=F("revision") + 1)
    refused = _execute(api, session, plan)
    assert _code(refused) == (409, "ks_plan_stale")
    assert "revision 2, planned at 1" in error_of(refused)["message"]
    assert not Operation.objects.exists()


def test_a_plan_expires(api: Caller, session: Session) -> None:
    plan = _plan(api, session).json()["data"]
    Plan.objects.update(expires_at=timezone.now())
    assert _code(_execute(api, session, plan)) == (409, "ks_plan_expired")


@pytest.mark.parametrize("missing", ["plan_id", "plan_digest"])
def test_without_its_plan_nothing_is_forked(api: Caller, session: Session, missing: str) -> None:
    body = {"plan_id": "fplan_x", "plan_digest": "0" * 64}
    del body[missing]
    refused = api("POST", f"/api/v2/sessions/{session.id}/fork", body)
    assert _code(refused) == (409, "ks_plan_required")


def test_another_sessions_plan_is_not_found(api: Caller, session: Session, owner: Tenant) -> None:
    plan = _plan(api, session).json()["data"]
    assert _code(_execute(api, session_row(owner.account, saved=True), plan)) == (404, "ks_not_found")


def test_only_a_valid_checkpoint_of_the_session_is_planned(api: Caller, session: Session, owner: Tenant, stranger: Tenant) -> None:
    path = f"/api/v2/sessions/{session.id}/fork-plan"
    named = {
        "ks_checkpoint_mismatch": checkpoint_row(session_row(owner.account)).id,
        "ks_not_found": checkpoint_row(session_row(stranger.account)).id,
        "ks_checkpoint_not_restorable": checkpoint_row(session, CheckpointState.CORRUPT).id,
    }
    assert {error_of(api("POST", path, {"checkpoint_id": id_}))["code"] for id_ in named.values()} == set(named)
    assert not Plan.objects.exists()


def test_a_checkpoint_that_was_lost_since_the_plan_is_not_forked(api: Caller, session: Session) -> None:
    plan = _plan(api, session).json()["data"]
    Checkpoint.objects.update(state=CheckpointState.CORRUPT)
    assert _code(_execute(api, session, plan)) == (409, "ks_checkpoint_not_restorable")


@pytest.mark.parametrize("children", [0, 9, "2", None, True])
def test_any_other_number_than_one_to_eight_is_refused(api: Caller, session: Session, children: Any) -> None:
    refused = api("POST", f"/api/v2/sessions/{session.id}/fork-plan", {"checkpoint_id": session.head_checkpoint_id, "children": children})
    assert refused.status_code == 400


def test_a_session_that_is_being_deleted_is_not_planned_for(api: Caller, owner: Tenant) -> None:
    assert _plan(api, session_row(owner.account, SessionState.DELETING, saved=True)).status_code == 409
