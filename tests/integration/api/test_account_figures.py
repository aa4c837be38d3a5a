"""An account's quotas, usage and service record over the API: its own, with null where nothing is known."""

from sessions_app.models import ServiceRecord
from sessions_app.services import quota, record, stored
from sessions_app.services.quota import Quota
from sessions_app.states import RecordKind
from tests.support.api import Caller, caller, error_of
from tests.support.fleet import Tenant, session_row


def test_an_account_is_told_with_its_quotas(api: Caller, owner: Tenant) -> None:
    session_row(owner.account)
    quota.set_limits(owner.account, {Quota.SESSIONS: 3}, by="operator")
    told = api("GET", "/api/v2/account").json()["data"]
    assert (told["id"], told["name"], told["state"]) == (owner.account.id, "owner", "active")
    assert told["quotas"] == [
        {"quota": "sessions", "limit": 3, "used": 1},
        {"quota": "running_machines", "limit": None, "used": 1},
        {"quota": "stored_bytes", "limit": None, "used": 0},
    ]


def test_a_refusal_names_the_quota_its_limit_and_what_is_used(api: Caller, owner: Tenant) -> None:
    quota.set_limits(owner.account, {Quota.SESSIONS: 0}, by="operator")
    refused = api("POST", "/api/sessions", {"Image": "tiny"})
    error = error_of(refused)
    assert (refused.status_code, error["code"]) == (409, "ks_quota_exceeded")
    assert (error["quota"], error["limit"], error["used"]) == ("sessions", 0, 0)


def test_usage_is_told_with_its_standing(api: Caller, owner: Tenant) -> None:
    stored.added(owner.account.id, 1000)
    told = api("GET", "/api/v2/account/usage").json()["data"]
    assert (told["storage"]["value"], told["storage"]["standing"]) == (1000, "estimated")
    assert (told["model"]["value"], told["model"]["standing"]) == (0, "actual")
    assert told["runtime"]["unit"] == "seconds"


def test_the_record_is_one_s_own_newest_first_in_pages(api: Caller, owner: Tenant, stranger: Tenant) -> None:
    for number in range(3):
        record.write(RecordKind.USAGE, f"line.{number}", account_id=owner.account.id)
    record.write(RecordKind.OPERATOR, "theirs", account_id=stranger.account.id)
    first = api("GET", "/api/v2/account/record?limit=2").json()["data"]
    second = api("GET", f"/api/v2/account/record?limit=2&cursor={first['next_cursor']}").json()["data"]
    assert [line["type"] for line in [*first["items"], *second["items"]]] == ["line.2", "line.1", "line.0"]
    assert api("GET", "/api/v2/account/record?kind=operator").json()["data"]["items"] == []
    assert [line["type"] for line in caller(stranger)("GET", "/api/v2/account/record").json()["data"]["items"]] == ["theirs"]
    assert error_of(api("GET", "/api/v2/account/record?kind=none"))["code"] == "ks_invalid"


def test_the_record_takes_an_account_s_manager(owner: Tenant) -> None:
    owner.token.scopes = ["sessions:read", "sessions:write"]
    owner.token.save()
    assert error_of(caller(owner)("GET", "/api/v2/account/record"))["code"] == "ks_forbidden"
    assert ServiceRecord.objects.count() == 0
