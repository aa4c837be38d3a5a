"""DELETE /api/sessions/{id}: the guard, the force, and what is gone."""

import pytest
from django.db import transaction

from sessions_app.models import Operation
from sessions_app.services import lease as leases
from sessions_app.services.lease import LeaseLost
from sessions_app.states import SessionState
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, boot_asked, session_row
from tests.support.worker import claim, work


def test_without_a_checkpoint_nothing_is_deleted_and_both_ways_out_are_named(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    refused = api("DELETE", f"/api/sessions/{session.id}")
    assert (refused.status_code, refused.json()["error"]) == (409, "ks_no_checkpoint")
    assert "Save and stop" in refused.json()["message"]
    assert "force" in refused.json()["message"]
    assert not Operation.objects.exists()


def test_force_deletes_without_a_checkpoint_and_the_session_is_gone(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    operation = work(api("DELETE", f"/api/sessions/{session.id}?force=1").json()["data"]["operation_id"])
    assert operation.http_status == 200
    assert {"runtime_stop", "content_purge"} <= set(operation.response or {})
    assert api("GET", f"/api/v2/sessions/{session.id}").status_code == 404


def test_a_saved_session_is_deleted_without_force(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    assert api("DELETE", f"/api/sessions/{session.id}").status_code == 202


@pytest.mark.parametrize("force", ["yes", "2", "force", "-1"])
def test_a_force_that_is_not_one_is_refused(api: Caller, owner: Tenant, force: str) -> None:
    session = session_row(owner.account, saved=True)
    assert api("DELETE", f"/api/sessions/{session.id}?force={force}").status_code == 400
    assert not Operation.objects.exists()


def test_a_session_still_waiting_for_a_host_can_be_given_up(api: Caller, owner: Tenant) -> None:
    boot = boot_asked(owner.account)
    accepted = api("DELETE", f"/api/sessions/{boot.session_id}?force=1")
    assert accepted.status_code == 202
    boot.refresh_from_db()
    assert (boot.state, (boot.error or {}).get("code")) == ("cancelled", "ks_cancelled")
    work(accepted.json()["data"]["operation_id"])


def test_work_that_a_worker_has_begun_is_ended_and_its_lease_is_void(api: Caller, owner: Tenant) -> None:
    boot = boot_asked(owner.account)
    lease = claim(boot)
    accepted = api("DELETE", f"/api/sessions/{boot.session_id}?force=1")
    assert accepted.status_code == 202
    boot.refresh_from_db()
    boot.session.refresh_from_db()
    assert (boot.state, boot.session.runtime_state, boot.session.epoch) == ("cancelled", "deleting", 1)
    with pytest.raises(LeaseLost), transaction.atomic():
        leases.require(lease)


def test_a_second_deletion_names_the_first(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    first = api("DELETE", f"/api/sessions/{session.id}?force=1").json()["data"]["operation_id"]
    again = api("DELETE", f"/api/sessions/{session.id}?force=1")
    assert (again.status_code, again.json()["operation_id"]) == (409, first)


def test_a_deletion_cannot_be_cancelled_even_before_a_worker_has_begun(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    operation_id = api("DELETE", f"/api/sessions/{session.id}?force=1").json()["data"]["operation_id"]
    refused = api("POST", f"/api/operations/{operation_id}/cancel")
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_not_cancellable")


def test_a_deletion_that_was_given_up_can_be_asked_for_again(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.DELETING, saved=True)
    assert api("DELETE", f"/api/sessions/{session.id}").status_code == 202


def test_a_deleted_session_is_listed_only_among_all(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.DELETED)
    assert api("GET", "/api/v2/sessions?source=fleet").json()["data"]["items"] == []
    for query in ("all=1", "state=dead", "state=deleted"):
        assert [row["id"] for row in api("GET", f"/api/v2/sessions?source=fleet&{query}").json()["data"]["items"]] == [session.id]
