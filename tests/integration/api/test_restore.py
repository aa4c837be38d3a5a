"""Restore over HTTP: what refuses it before anything is done, in the contract's words."""

from typing import Any

import pytest

from sessions_app.models import Operation, Session
from sessions_app.states import SessionState
from tests.support.api import Caller, error_of, new_key
from tests.support.fleet import Tenant, checkpoint_row, session_row
from tests.support.worker import work


@pytest.fixture
def session(owner: Tenant) -> Session:
    return session_row(owner.account, SessionState.PARKED, saved=True, host_id="")


def _body(session: Session, **other: Any) -> dict[str, Any]:
    asked = {"checkpoint_id": session.head_checkpoint_id, "reason": "back", "expected_revision": session.revision, "epoch": session.epoch}
    return {**asked, **other}


def _restore(api: Caller, session: Session, *, key: str | None = None, **other: Any) -> Any:
    return api("POST", f"/api/v2/sessions/{session.id}/restore", _body(session, **other), key=key)


def _code(answer: Any) -> tuple[int, str]:
    return answer.status_code, error_of(answer)["code"]


def test_with_nothing_later_it_is_accepted_and_a_repeated_key_is_one_restore(api: Caller, session: Session) -> None:
    key = new_key()
    operation = work(_restore(api, session, key=key).json()["data"]["operation_id"])
    again = _restore(api, session, key=key)
    assert (again.status_code, again.json()["data"]) == (200, operation.response)
    assert (Operation.objects.count(), operation.kind) == (1, "restore")


@pytest.mark.parametrize("wrong", [{"reason": ""}, {"reason": "  "}, {"checkpoint_id": ""}, {"reason": None}, {"epoch": "1"}])
def test_without_a_named_checkpoint_and_a_reason_it_is_refused(api: Caller, session: Session, wrong: dict[str, Any]) -> None:
    assert _code(_restore(api, session, **wrong)) == (400, "ks_invalid")


def test_another_revision_or_epoch_than_was_read_is_a_conflict(api: Caller, session: Session) -> None:
    assert _code(_restore(api, session, expected_revision=session.revision + 1)) == (409, "ks_revision_conflict")
    assert _code(_restore(api, session, epoch=session.epoch + 1)) == (409, "ks_epoch_mismatch")
    assert not Operation.objects.exists()


def test_later_work_is_listed_and_its_digest_consents(api: Caller, session: Session, owner: Tenant) -> None:
    first = session.head_checkpoint_id
    later = [checkpoint_row(session).id for _ in range(60)]
    refused = _restore(api, session, checkpoint_id=first)
    told = error_of(refused)
    assert _code(refused) == (409, "ks_restore_scope")
    assert [row["id"] for row in told["affected"]] == later[:50]
    assert told["affected_counts"] == {"checkpoint": 60}
    assert _code(_restore(api, session, checkpoint_id=first, accept_affected_digest="0" * 64)) == (409, "ks_restore_scope")
    assert _restore(api, session, checkpoint_id=first, accept_affected_digest=told["affected_digest"]).status_code == 202


def test_consent_to_a_list_is_none_to_a_longer_one(api: Caller, session: Session) -> None:
    first = session.head_checkpoint_id
    checkpoint_row(session)
    digest = error_of(_restore(api, session, checkpoint_id=first))["affected_digest"]
    checkpoint_row(session)
    assert _code(_restore(api, session, checkpoint_id=first, accept_affected_digest=digest)) == (409, "ks_restore_scope")


def test_another_sessions_checkpoint_is_no_point_to_go_back_to(api: Caller, session: Session, owner: Tenant) -> None:
    other = checkpoint_row(session_row(owner.account))
    assert _code(_restore(api, session, checkpoint_id=other.id)) == (409, "ks_checkpoint_mismatch")


@pytest.mark.parametrize("state", [SessionState.PROVISIONING, SessionState.CHECKPOINTING, SessionState.RESUMING, SessionState.DELETING])
def test_a_session_on_its_way_to_another_state_is_not_restored(api: Caller, owner: Tenant, state: SessionState) -> None:
    refused = _restore(api, session_row(owner.account, state, saved=True))
    assert (refused.status_code, error_of(refused)["runtime_state"]) == (409, state.value)


def test_where_no_host_can_take_it_the_phase_says_why(api: Caller, session: Session) -> None:
    from workers.models import HostPin

    HostPin.objects.all().delete()
    refused = error_of(_restore(api, session))
    assert (refused["stopped_at"], refused["continuation"], refused["phases"][0]["done"]) == ("check", "none", False)
    assert refused["phases"][0]["detail"].startswith(refused["code"])
