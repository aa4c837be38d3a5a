"""Retention over the API: off until asked for, shown before it is set, and set only by what was shown."""

from typing import Any

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import retention as expiry
from sessions_app.models import RetentionPolicy, Session
from sessions_app.states import SessionState
from tests.support.api import Caller, error_of, new_key
from tests.support.fleet import Tenant, checkpoint_row, session_row

ACCOUNT = "/api/v2/retention"


def saved(owner: Tenant, count: int = 3) -> Session:
    session = session_row(owner.account, SessionState.PARKED)
    for number in range(count):
        checkpoint_row(session, stored_bytes=100 + number)
    return session


def of(session: Session) -> str:
    return f"/api/v2/sessions/{session.id}/retention"


def previewed(api: Caller, path: str, **rules: Any) -> dict[str, Any]:
    answer = api("POST", f"{path}/preview", rules)
    assert answer.status_code == 200, answer.content
    return dict(answer.json()["data"])


def put(api: Caller, path: str, shown: dict[str, Any], **rules: Any) -> Any:
    plan = {"plan_id": shown["plan_id"], "plan_digest": shown["plan_digest"]}
    return api("PUT", path, {**rules, "expected_revision": shown["revision"], **plan})


def expiring(shown: dict[str, Any]) -> set[str]:
    return {item["checkpoint_id"] for item in shown["items"] if item["expires"]}


def test_nothing_is_kept_by_a_policy_until_one_is_set(api: Caller, owner: Tenant) -> None:
    for path in (ACCOUNT, of(saved(owner))):
        told = api("GET", path).json()["data"]
        assert (told["policy"], told["effective"], told["revision"]) == (None, None, 0)


def test_a_preview_tells_of_every_point_what_keeps_it_and_changes_nothing(api: Caller, owner: Tenant) -> None:
    session = saved(owner)
    shown = previewed(api, of(session), keep_last=1)
    assert (shown["expire_count"], shown["keep_count"]) == (2, 1)
    assert shown["items"][0]["kept_by"] == ["head", "keep_last"]
    assert not RetentionPolicy.objects.exists()
    assert Checkpoint.objects.filter(state="published").count() == 3


def test_a_policy_is_set_by_its_preview_and_expires_what_was_shown(api: Caller, owner: Tenant) -> None:
    session = saved(owner)
    shown = previewed(api, of(session), keep_last=1)
    told = put(api, of(session), shown, keep_last=1).json()["data"]
    assert (told["policy"]["keep_last"], told["effective"]["keep_last"], told["revision"]) == (1, 1, 1)
    assert set(expiry.decide(session.id)) == expiring(shown)


def test_a_policy_that_was_not_shown_is_not_set(api: Caller, owner: Tenant) -> None:
    session = saved(owner)
    refused = api("PUT", of(session), {"keep_last": 1, "expected_revision": 0})
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_plan_required")
    shown = previewed(api, of(session), keep_last=2)
    assert error_of(put(api, of(session), shown, keep_last=1))["code"] in ("ks_plan_digest_mismatch", "ks_plan_stale")
    assert not RetentionPolicy.objects.exists()


def test_a_preview_after_which_other_points_would_expire_is_stale(api: Caller, owner: Tenant) -> None:
    session = saved(owner)
    shown = previewed(api, of(session), keep_last=1)
    checkpoint_row(session)
    assert error_of(put(api, of(session), shown, keep_last=1))["code"] == "ks_plan_stale"


def test_another_revision_refuses_and_a_repeated_request_changes_nothing(api: Caller, owner: Tenant) -> None:
    session = saved(owner)
    shown, key = previewed(api, of(session), keep_last=1), new_key()
    first = put(api, of(session), shown, keep_last=1)
    assert put(api, of(session), shown, keep_last=1).json() == first.json()
    assert error_of(api("PUT", of(session), {"keep_last": 2, "expected_revision": 0}))["code"] == "ks_revision_conflict"
    body = {"enabled": False, "expected_revision": 1}
    assert api("PUT", of(session), body, key=key).json() == api("PUT", of(session), body, key=key).json()
    assert api("GET", of(session)).json()["data"]["revision"] == 2


def test_an_account_s_policy_holds_for_sessions_without_their_own(api: Caller, owner: Tenant) -> None:
    follows, keeps_all = saved(owner), saved(owner)
    assert api("PUT", of(keeps_all), {"enabled": False, "expected_revision": 0}).status_code == 200
    shown = previewed(api, ACCOUNT, keep_last=1)
    assert {item["session_id"] for item in shown["items"]} == {follows.id}
    assert (shown["expire_count"], len(shown["items"])) == (2, 3)
    assert put(api, ACCOUNT, shown, keep_last=1).status_code == 200
    told = api("GET", of(follows)).json()["data"]
    assert (told["policy"], told["effective"]["keep_last"], told["inherited"]) == (None, 1, True)
    assert expiry.decide(keeps_all.id) == []
    assert len(expiry.decide(follows.id)) == 2


def test_what_kept_a_session_from_the_account_s_policy_is_taken_away_by_a_preview_alone(api: Caller, owner: Tenant) -> None:
    session = saved(owner)
    api("PUT", of(session), {"enabled": False, "expected_revision": 0})
    assert put(api, ACCOUNT, previewed(api, ACCOUNT, keep_last=1), keep_last=1).status_code == 200
    assert error_of(api("DELETE", f"{of(session)}?expected_revision=1"))["code"] == "ks_plan_required"
    shown = previewed(api, of(session), inherit=True)
    query = f"?expected_revision=1&plan_id={shown['plan_id']}&plan_digest={shown['plan_digest']}"
    assert api("DELETE", of(session) + query).json()["data"]["inherited"] is True
    assert set(expiry.decide(session.id)) == expiring(shown)


def test_a_policy_that_is_taken_away_keeps_everything_and_its_revision_goes_on(api: Caller, owner: Tenant) -> None:
    session = saved(owner)
    put(api, of(session), previewed(api, of(session), keep_last=1), keep_last=1)
    told = api("DELETE", f"{of(session)}?expected_revision=1").json()["data"]
    assert (told["policy"], told["effective"], told["revision"]) == (None, None, 2)
    assert expiry.decide(session.id) == []


def test_a_preview_is_read_in_pages(api: Caller, owner: Tenant) -> None:
    wanted = {(session.id, row) for session in (saved(owner), saved(owner)) for row in session.checkpoints.values_list("id", flat=True)}
    seen, cursor = list[tuple[str, str]](), ""
    for _ in range(9):
        page = previewed(api, ACCOUNT, keep_last=1, limit=2, cursor=cursor)
        assert (page["plan_id"] is None) == bool(cursor)
        seen += [(item["session_id"], item["checkpoint_id"]) for item in page["items"]]
        if not (cursor := page["next_cursor"]):
            break
    assert (len(seen), set(seen)) == (len(wanted), wanted)


def test_a_policy_that_would_keep_nothing_is_refused(api: Caller, owner: Tenant) -> None:
    for rules in ({"keep_last": 0}, {"keep_daily": -1}, {"keep_last": 1001}, {}):
        refused = api("POST", f"{ACCOUNT}/preview", rules)
        assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_invalid")


def test_a_point_is_named_and_shown_with_it(api: Caller, owner: Tenant) -> None:
    session = saved(owner, 1)
    path = f"/api/v2/sessions/{session.id}/checkpoints"
    assert api("PATCH", f"{path}/{session.head_checkpoint_id}", {"name": "milestone"}).json()["data"]["name"] == "milestone"
    (row,) = api("GET", path).json()["data"]["items"]
    assert (row["name"], row["held_at"], row["hold_reason"]) == ("milestone", None, None)
    assert error_of(api("PATCH", f"{path}/{session.head_checkpoint_id}", {"name": "no blanks"}))["code"] == "ks_invalid"


def test_a_point_is_deleted_once_per_key(api: Caller, owner: Tenant) -> None:
    session, key = saved(owner), new_key()
    path = f"/api/v2/sessions/{session.id}/checkpoints/{session.head_checkpoint_id}"
    first = api("DELETE", path, key=key)
    told = first.json()["data"]
    assert (first.status_code, told["deleted"], told["content_purge"]) == (200, True, "pending")
    assert told["head_checkpoint_id"] not in (None, session.head_checkpoint_id)
    again = api("DELETE", path, key=key)
    assert (again.json(), again["KS-Operation-Replayed"]) == (first.json(), "true")
