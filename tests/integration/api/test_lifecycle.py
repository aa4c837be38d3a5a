"""Policies and cancels over the API: the contract's fields, typed refusals, safe to repeat."""

from sessions_app.models import Operation
from sessions_app.services import lease as leases
from sessions_app.services import session as sessions
from sessions_app.services import session_deletion
from sessions_app.services.operation import Asked
from sessions_app.states import SessionState
from tests.support import worker
from tests.support.api import Caller, error_of, new_key
from tests.support.fleet import Tenant, boot_asked, session_row

SAVES = {
    "enabled", "interval_minutes", "state", "next_at", "pending_since", "deferred_reason", "last_attempt_at", "last_operation_id",
    "certification", "storage_effect", "session_revision",
}  # fmt: skip
IDLE = {
    "enabled", "idle_minutes", "warning_seconds", "state", "idle_since", "warned_at", "park_at", "deferred_reason", "note",
    "session_revision",
}  # fmt: skip


def test_automatic_saves_are_read_and_switched_on(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    path = f"/api/v2/sessions/{session.id}/checkpoint-policy"
    before = api("GET", path).json()["data"]
    assert set(before) == SAVES
    assert (before["enabled"], before["state"], before["interval_minutes"], before["next_at"]) == (False, "off", 5, None)
    change = {"enabled": True, "interval_minutes": 30, "expected_revision": before["session_revision"]}
    after = api("PUT", path, change, key=new_key()).json()["data"]
    assert (after["enabled"], after["state"], after["interval_minutes"]) == (True, "scheduled", 30)
    assert after["session_revision"] == before["session_revision"] + 1
    assert api("PUT", path, change).json()["data"] == after, "the same request again is answered as the first"
    refused = api("PUT", path, {**change, "enabled": False})
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_revision_conflict")


def test_parking_is_read_and_switched_on(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    path = f"/api/v2/sessions/{session.id}/idle"
    before = api("GET", path).json()["data"]
    assert set(before) == IDLE
    assert (before["enabled"], before["state"], before["park_at"]) == (False, "off", None)
    after = api("PUT", path, {"enabled": True, "idle_minutes": 20, "expected_revision": before["session_revision"]}).json()["data"]
    assert (after["state"], after["idle_minutes"], after["warning_seconds"]) == ("counting", 20, 60)
    assert api("PUT", path, {"enabled": True, "idle_minutes": 0, "expected_revision": 1}).status_code == 400


def test_what_becomes_of_a_session_after_a_loss_is_read_and_chosen(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    path = f"/api/v2/sessions/{session.id}/recovery-policy"
    before = api("GET", path).json()["data"]
    assert set(before) == {"on_host_loss", "on_machine_loss", "resumed_lately", "note", "session_revision"}
    assert (before["on_host_loss"], before["on_machine_loss"], before["resumed_lately"]) == (True, False, 0)
    change = {"on_machine_loss": True, "expected_revision": before["session_revision"]}
    after = api("PUT", path, change).json()["data"]
    assert (after["on_host_loss"], after["on_machine_loss"]) == (True, True)
    assert api("PUT", path, change).json()["data"] == after, "the same request again is answered as the first"
    refused = api("PUT", path, {**change, "on_host_loss": False})
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_revision_conflict")


def test_what_has_not_begun_is_cancelled_at_once_and_again_is_the_same(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    operation = sessions.checkpoint(session, stop=False, reason="", asked=Asked())
    first = api("POST", f"/api/operations/{operation.id}/cancel", {})
    assert (first.status_code, first.json()["data"]["state"]) == (200, "cancelled")
    assert first.json()["data"]["error"]["code"] == "ks_cancelled"
    assert api("POST", f"/api/operations/{operation.id}/cancel").json() == first.json()
    session.refresh_from_db()
    assert session.runtime_state == SessionState.RUNNING


def test_a_boot_that_no_host_has_begun_is_cancelled_and_its_session_failed(api: Caller, owner: Tenant) -> None:
    operation = boot_asked(owner.account)
    api("POST", f"/api/operations/{operation.id}/cancel")
    operation.session.refresh_from_db()
    assert operation.session.runtime_state == SessionState.FAILED
    assert operation.session.failure is not None
    assert operation.session.failure["code"] == "ks_cancelled"


def test_what_runs_is_asked_to_stop_and_reads_cancelling(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    operation = sessions.checkpoint(session, stop=False, reason="", asked=Asked())
    worker.claim(operation)
    asked = api("POST", f"/api/operations/{operation.id}/cancel")
    assert (asked.status_code, asked.json()["data"]["state"]) == (202, "cancelling")
    first = Operation.objects.get(id=operation.id).cancel_requested_at
    api("POST", f"/api/operations/{operation.id}/cancel")
    assert Operation.objects.get(id=operation.id).cancel_requested_at == first
    assert api("GET", f"/api/operations/{operation.id}").json()["data"]["state"] == "cancelling"
    row = api("GET", f"/api/v2/sessions/{session.id}").json()["data"]
    assert row["operation"]["state"] == "cancelling"


def test_what_finishes_first_has_its_outcome(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    operation = sessions.checkpoint(session, stop=False, reason="", asked=Asked())
    lease = worker.claim(operation)
    api("POST", f"/api/operations/{operation.id}/cancel")
    leases.succeed(lease, {"id": session.id}, 200)
    assert api("GET", f"/api/operations/{operation.id}").json()["data"]["state"] == "succeeded"
    late = api("POST", f"/api/operations/{operation.id}/cancel")
    assert (late.status_code, error_of(late)["code"], error_of(late)["operation_state"]) == (409, "ks_already_ended", "succeeded")


def test_a_deletion_that_has_begun_says_that_it_cannot_be_cancelled(api: Caller, owner: Tenant) -> None:
    operation = session_deletion.ask(session_row(owner.account), force=True, asked=Asked())
    worker.claim(operation)
    refused = api("POST", f"/api/operations/{operation.id}/cancel")
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_not_cancellable")
    assert Operation.objects.get(id=operation.id).cancel_requested_at is None


def test_a_save_that_is_published_and_stopping_says_that_it_cannot_be_cancelled(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    operation = sessions.checkpoint(session, stop=True, reason="", asked=Asked())
    worker.claim(operation)
    type(session).objects.filter(id=session.id).update(runtime_state=SessionState.STOPPING)
    refused = api("POST", f"/api/operations/{operation.id}/cancel")
    assert error_of(refused)["code"] == "ks_not_cancellable"
