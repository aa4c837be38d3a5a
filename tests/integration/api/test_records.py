"""A session's record: made without a machine, given one, renamed; and what waits for its machine is left waiting."""

import pytest

from sessions_app.models import Operation, Session, SessionEvent
from sessions_app.states import SessionState
from tests.support import worker
from tests.support.api import Caller, error_of, new_key
from tests.support.fleet import Tenant, session_row
from workers import sweep as sweeping
from workers.models import Host

PATH = "/api/v2/sessions"
BODY = {"name": "first", "image": "tiny", "memory_mib": 128, "budget": 7}


def _record(api: Caller) -> str:
    made = api("POST", PATH, BODY)
    assert made.status_code == 201
    return str(made.json()["data"]["id"])


def test_a_record_has_no_machine_and_no_operation(api: Caller) -> None:
    row = api("POST", PATH, BODY).json()["data"]
    assert (row["runtime_state"], row["revision"], row["name"], row["budget_tokens"]) == ("provisioning", 1, "first", 7)
    assert (row["primary_agent_id"], row["operation"], row["execution_epoch"], row["mode"]) == (None, None, 0, "plain")
    assert not Operation.objects.exists()
    assert [event.type for event in SessionEvent.objects.all()] == ["session.created"]


def test_a_record_is_made_even_if_no_host_is_there_and_provisioning_refuses(api: Caller) -> None:
    Host.objects.all().delete()
    record = _record(api)
    refused = api("POST", f"{PATH}/{record}/provision", {"expected_revision": 1})
    assert (refused.status_code, error_of(refused)["code"]) == (503, "ks_fleet_unavailable")
    assert Session.objects.get().revision == 1


def test_a_record_is_provisioned_against_the_revision_that_was_read(api: Caller) -> None:
    record = _record(api)
    stale = api("POST", f"{PATH}/{record}/provision", {"expected_revision": 9})
    assert (stale.status_code, error_of(stale)["code"]) == (409, "ks_revision_conflict")
    accepted = api("POST", f"{PATH}/{record}/provision", {"expected_revision": 1, "budget": 9})
    worker.work(accepted.json()["data"]["operation_id"])
    outcome = api("GET", accepted["Location"]).json()["data"]
    assert (outcome["state"], outcome["http_status"]) == ("succeeded", 201)
    answer = outcome["response"]
    assert (answer["session_id"], answer["ready"], answer["agent_id"], answer["cleaned_up"]) == (record, True, None, False)
    assert all(phase["done"] for phase in answer["phases"])
    row = api("GET", f"{PATH}/{record}").json()["data"]
    assert (row["runtime_state"], row["budget_tokens"]) == ("running", 9)
    again = api("POST", f"{PATH}/{record}/provision", {"expected_revision": row["revision"]})
    assert (again.status_code, error_of(again)["runtime_state"]) == (409, "running")


def test_a_record_that_is_being_provisioned_is_not_provisioned_twice(api: Caller) -> None:
    record = _record(api)
    api("POST", f"{PATH}/{record}/provision", {"expected_revision": 1})
    refused = api("POST", f"{PATH}/{record}/provision", {"expected_revision": 2})
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_conflict")
    assert Operation.objects.count() == 1


def test_a_record_that_waits_is_not_failed_by_the_sweep(api: Caller) -> None:
    record = _record(api)
    sweeping.sweep()
    assert Session.objects.get(id=record).runtime_state == SessionState.PROVISIONING


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/sessions/{}/exec", {"Cmd": "true"}),
        ("/api/sessions/{}/checkpoint", {}),
        ("/api/sessions/{}/resume", {}),
        ("/api/sessions/{}/fork", {}),
        ("/api/v2/sessions/{}/pause", {}),
    ],
)
def test_what_needs_a_machine_refuses_a_record_by_name_and_says_how_it_gets_one(api: Caller, path: str, body: object) -> None:
    record = _record(api)
    refused = api("POST", path.format(record), body)
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_session_no_engine")
    assert f"/api/v2/sessions/{record}/provision" in error_of(refused)["next_action"]


def test_a_record_is_deleted_without_force_for_no_work_is_lost(api: Caller) -> None:
    record = _record(api)
    accepted = api("DELETE", f"/api/sessions/{record}")
    assert accepted.status_code == 202
    worker.work(accepted.json()["data"]["operation_id"])
    assert api("GET", f"{PATH}/{record}").status_code == 404


@pytest.mark.parametrize("body", [{"mode": "agent"}, {"primary_agent_name": "main"}, {"mode": "cruise"}])
def test_agents_are_refused_by_name_and_nothing_is_created(api: Caller, body: object) -> None:
    refused = api("POST", PATH, body)
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_agents_not_served")
    assert not Session.objects.exists()


def test_a_session_is_renamed_against_its_revision_and_asking_again_changes_nothing(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    change = {"name": "other", "expected_revision": 1}
    renamed = api("PATCH", f"{PATH}/{session.id}", change).json()["data"]
    assert (renamed["name"], renamed["revision"]) == ("other", 2)
    assert api("PATCH", f"{PATH}/{session.id}", change).json()["data"]["revision"] == 2
    stale = api("PATCH", f"{PATH}/{session.id}", {"name": "third", "expected_revision": 1})
    assert (stale.status_code, error_of(stale)["code"], error_of(stale)["revision"]) == (409, "ks_revision_conflict", 2)
    assert api("PATCH", f"{PATH}/{session.id}", {"name": "1st", "expected_revision": 2}).status_code == 400


def test_a_list_is_of_records_or_of_the_fleets_machines(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.PARKED, park_reason="requested")
    (record,) = api("GET", PATH).json()["data"]["items"]
    assert (record["id"], record["fleet_session_id"]) == (session.record_id, session.id)
    assert (record["runtime_state"], record["park_reason"]) == ("parked", "requested")
    (machine,) = api("GET", f"{PATH}?source=fleet").json()["data"]["items"]
    assert (machine["id"], machine["record_id"]) == (session.id, session.record_id)


def test_a_deleted_session_is_listed_as_dead_only_if_asked_for(api: Caller, owner: Tenant) -> None:
    gone = session_row(owner.account, SessionState.DELETED)
    assert api("GET", PATH).json()["data"]["items"] == []
    for query in ("all=1", "state=dead"):
        assert [row["id"] for row in api("GET", f"{PATH}?source=fleet&{query}").json()["data"]["items"]] == [gone.id]


def test_a_record_made_under_a_key_is_made_once_and_found_by_its_key(api: Caller) -> None:
    key = new_key()
    first, second = api("POST", PATH, BODY, key=key), api("POST", PATH, BODY, key=key)
    assert (second.status_code, second["KS-Operation-Replayed"]) == (201, "true")
    assert first.json() == second.json()
    assert Session.objects.count() == 1
    found = api("GET", f"/api/operations/{key}").json()["data"]
    assert (found["state"], found["http_status"], found["response"]) == ("succeeded", 201, first.json()["data"])
