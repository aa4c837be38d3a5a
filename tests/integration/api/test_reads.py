"""What is read: sessions by any of their ids, lists by pages, checkpoints, history."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints_app.states import CheckpointState
from sessions_app.services import event
from sessions_app.states import SessionState
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, boot_asked, checkpoint_row, session_row

LIST = "/api/v2/sessions?source=fleet"
ROW = {
    "id", "short_id", "record_id", "name", "runtime_state", "image", "parent", "budget_tokens", "execution_epoch", "revision", "created_at",
    "last_activity_at", "last_checkpoint_id", "last_checkpoint_at", "primary_agent_id", "agent_activity", "task_state", "key_alias",
    "park_reason", "failure", "memory_mib", "cpus", "operation", "observed_at", "verifying",
    "project_id", "mode",
}  # fmt: skip
POINT = {
    "id", "session_id", "fleet_checkpoint_id", "content_manifest_hash", "manifest_version", "state", "boundary", "attempt_id", "task_id",
    "source_epoch", "task_watermark", "event_watermark", "pending_effect_receipts", "scope", "reason", "created_at", "published_at",
    "parent_checkpoint_id", "pause_seconds", "logical_bytes", "written_bytes", "unique_bytes", "stored_bytes", "failure",
    "name", "held_at", "hold_reason",
}  # fmt: skip


def test_a_session_is_read_by_full_id_record_id_short_id_and_unique_prefix(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    for text in (session.id, session.record_id, session.short_id, session.id[:4], session.id.upper()):
        assert api("GET", f"/api/v2/sessions/{text}").json()["data"]["id"] == session.id


def test_a_prefix_of_two_sessions_lists_both_and_picks_none(api: Caller, owner: Tenant) -> None:
    for end in ("1", "2"):
        session_row(owner.account, id="abcd" + end * 28)
    refused = api("GET", "/api/v2/sessions/abcd")
    assert refused.status_code == 409
    assert len(error_of(refused)["candidates"]) == 2


@pytest.mark.parametrize(
    "text", ["abc", "session_", "session_does_not_exist", "%00" * 8, "%25%25%25%25", "a" * 500, "..%2f..", "%F0%9F%92%A5" * 4]
)
def test_an_id_that_names_nothing_is_not_found(api: Caller, owner: Tenant, text: str) -> None:
    session_row(owner.account)
    missing = api("GET", f"/api/v2/sessions/{text}")
    assert missing.status_code == 404
    assert error_of(missing)["code"] == ("ks_route_not_served" if "%2f" in text else "ks_not_found")


def test_a_row_has_the_contracts_fields_and_null_for_what_is_not_known(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    row = api("GET", f"/api/v2/sessions/{session.id}").json()["data"]
    assert set(row) == ROW
    unknown = [
        "name",
        "parent",
        "last_checkpoint_id",
        "last_checkpoint_at",
        "primary_agent_id",
        "agent_activity",
        "task_state",
        "key_alias",
        "operation",
    ]
    assert [row[name] for name in unknown] == [None] * len(unknown)


def test_every_session_is_on_exactly_one_page_newest_activity_first(api: Caller, owner: Tenant) -> None:
    made = [session_row(owner.account).id for _ in range(7)]
    seen, cursor, pages = [], "", 0
    while pages < 10:
        data = api("GET", f"{LIST}&limit=3&cursor={cursor}").json()["data"]
        seen += [row["id"] for row in data["items"]]
        cursor, pages = data["next_cursor"], pages + 1
        if not cursor:
            break
    assert pages == 3
    assert seen == made[::-1]


def test_sessions_of_one_instant_are_not_lost_between_pages(api: Caller, owner: Tenant) -> None:
    now = timezone.now()
    made = {session_row(owner.account, last_activity_at=now).id for _ in range(4)}
    first = api("GET", f"{LIST}&limit=2").json()["data"]
    second = api("GET", f"{LIST}&limit=2&cursor={first['next_cursor']}").json()["data"]
    assert {row["id"] for row in first["items"] + second["items"]} == made


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "limit=-1", "limit=1e2", "cursor=x", "cursor=WzEsMl0", "state=nope", "all=maybe", "source=moon"],
)
def test_a_query_that_means_nothing_is_refused(api: Caller, query: str) -> None:
    refused = api("GET", f"/api/v2/sessions?{query}")
    assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_invalid")


def test_a_list_is_filtered_by_state(api: Caller, owner: Tenant) -> None:
    session_row(owner.account)
    parked = session_row(owner.account, SessionState.PARKED)
    assert [row["id"] for row in api("GET", f"{LIST}&state=parked").json()["data"]["items"]] == [parked.id]


def test_a_list_costs_the_same_queries_for_one_session_and_for_many(api: Caller, owner: Tenant) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert api("GET", LIST).status_code == 200
        return len(seen)

    boot_asked(owner.account)
    api("GET", LIST)  # the token's last use is written now, and not again within its grain
    one = queries()
    for _ in range(20):
        boot_asked(owner.account)
    assert queries() == one


def test_checkpoints_are_newest_first_with_failed_ones_and_their_reason(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    kept = checkpoint_row(session)
    failed = checkpoint_row(session, CheckpointState.FAILED, failure={"code": "ks_save_failed", "message": "no room"})
    items = api("GET", f"/api/v2/sessions/{session.id}/checkpoints").json()["data"]["items"]
    assert [(row["id"], row["state"]) for row in items] == [(failed.id, "failed"), (kept.id, "valid")]
    assert items[0]["failure"]["message"] == "no room"
    assert set(items[0]) == POINT
    assert (items[0]["stored_bytes"], items[0]["pause_seconds"], items[0]["content_manifest_hash"]) == (None, None, None)


def test_checkpoints_come_in_pages(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    made = [checkpoint_row(session).id for _ in range(5)]
    path = f"/api/v2/sessions/{session.id}/checkpoints?limit=2"
    first = api("GET", path).json()["data"]
    second = api("GET", f"{path}&cursor={first['next_cursor']}").json()["data"]
    third = api("GET", f"{path}&cursor={second['next_cursor']}").json()["data"]
    assert [row["id"] for page in (first, second, third) for row in page["items"]] == made[::-1]
    assert third["next_cursor"] == ""


def test_history_is_read_in_order_and_from_a_number_on(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    with transaction.atomic():
        for number in range(5):
            event.append(session.id, "test.step", {"n": number}, source="test")
    path = f"/api/v2/sessions/{session.id}/events"
    first = api("GET", f"{path}?limit=2").json()["data"]
    assert [row["stream_seq"] for row in first["items"]] == [1, 2]
    rest = api("GET", f"{path}?after_seq=2&limit=400").json()["data"]
    assert [row["stream_seq"] for row in rest["items"]] == [3, 4, 5]
    assert rest["next_cursor"] == ""
    assert api("GET", f"{path}?cursor={first['next_cursor']}").json()["data"]["items"] == rest["items"]
    assert rest["items"][0]["payload"] == {"type": "test.step", "n": 2}


@pytest.mark.parametrize("query", ["after_seq=-1", "after_seq=x", "limit=0", "limit=1001", f"after_seq={10**30}"])
def test_a_history_query_that_means_nothing_is_refused(api: Caller, owner: Tenant, query: str) -> None:
    session = session_row(owner.account)
    assert api("GET", f"/api/v2/sessions/{session.id}/events?{query}").status_code == 400
