"""Tokens over the API: shown without their text, made within what the maker may do, revoked."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from sessions_app.models import ApiToken, RecordedRequest, ServiceRecord
from sessions_app.roles import Role, Scope
from sessions_app.services import bounds
from sessions_app.services import token as tokens
from tests.support.api import Caller, error_of, new_key
from tests.support.fleet import Tenant
from tests.support.people import caller_of, member

PATH = "/api/v2/tokens"


def test_a_token_that_is_made_works_and_is_told_once(api: Caller, owner: Tenant) -> None:
    made = api("POST", PATH, {"name": "nightly", "scopes": ["sessions:read"]}).json()["data"]
    assert Caller(made["token"])("GET", "/api/whoami").json()["scopes"] == ["sessions:read"]
    listed = api("GET", PATH)
    assert made["token"] not in listed.content.decode()
    row = next(row for row in listed.json()["data"]["items"] if row["id"] == made["id"])
    assert (row["name"], row["prefix"], row["user"]) == ("nightly", made["token"][:8], None)
    assert "token" not in row


def test_a_repeated_request_makes_no_second_token_and_does_not_tell_the_first_again(api: Caller, owner: Tenant) -> None:
    key = new_key()
    first, second = (api("POST", PATH, {"name": "nightly"}, key=key) for _ in range(2))
    assert (first.status_code, second.status_code, second["KS-Operation-Replayed"]) == (201, 201, "true")
    plain = first.json()["data"]["token"]
    assert "token" not in second.json()["data"]
    assert first.json()["data"]["id"] == second.json()["data"]["id"]
    assert plain not in str(list(RecordedRequest.objects.values()) + list(ServiceRecord.objects.values()) + list(ApiToken.objects.values()))


def test_a_token_has_the_life_that_was_asked_for(api: Caller, owner: Tenant) -> None:
    def days(body: dict[str, Any]) -> int | None:
        made = api("POST", PATH, {"name": "one", **body}).json()["data"]
        expires = ApiToken.objects.get(id=made["id"]).expires_at
        return None if expires is None else round((expires - timezone.now()) / timedelta(days=1))

    assert days({"expires_in_days": 7}) == 7
    assert days({"expires_in_days": None}) is None
    assert days({}) == settings.KEEPSTATE_TOKEN_DAYS


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": " "}, {"name": "a\nb"}, {"name": "x" * 101}, {"scopes": []}, {"scopes": ["everything"]},
        {"scopes": "sessions:read"}, {"expires_in_days": 0}, {"expires_in_days": 4000}, {"expires_in_days": "7"}, {"user": "ada"},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_token_is_refused_and_none_is_made(api: Caller, owner: Tenant, wrong: dict[str, Any]) -> None:
    refused = api("POST", PATH, {"name": "one", **wrong})
    assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_invalid")
    assert ApiToken.objects.count() == 1


def test_no_token_makes_one_that_may_do_more_than_itself(owner: Tenant) -> None:
    narrow = Caller(tokens.issue(owner.account, "narrow", scopes=[Scope.ACCOUNT_MANAGE])[1])
    refused = narrow("POST", PATH, {"name": "more", "scopes": ["sessions:write"]})
    assert (refused.status_code, error_of(refused)["missing_scope"]) == (403, "sessions:write")
    assert narrow("POST", PATH, {"name": "as much"}).json()["data"]["scopes"] == ["account:manage"]


def test_what_a_users_token_makes_is_the_users_and_is_cut_with_him(owner: Tenant) -> None:
    ada = member(owner.account, "ada", Role.OWNER)
    made = caller_of(ada)("POST", PATH, {"name": "robot"}).json()["data"]
    assert made["user"] == "ada"
    ada.delete()
    assert Caller(made["token"])("GET", "/api/whoami").status_code == 401


def test_an_account_has_no_more_live_tokens_than_its_bound(api: Caller, owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TOKENS", 2)
    assert api("POST", PATH, {"name": "second"}).status_code == 201
    refused = api("POST", PATH, {"name": "third"})
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_quota_exceeded")


def test_a_token_of_the_account_is_revoked_and_another_accounts_does_not_exist(api: Caller, owner: Tenant, stranger: Tenant) -> None:
    other, plain = tokens.issue(owner.account, "other")
    assert api("DELETE", f"{PATH}/{other.id}").json()["data"] == {"revoked": True, "token_id": other.id}
    assert Caller(plain)("GET", "/api/whoami").status_code == 401
    assert error_of(api("DELETE", f"{PATH}/{stranger.token.id}"))["code"] == "ks_not_found"
    assert [row["id"] for row in api("GET", PATH).json()["data"]["items"]] == [other.id, owner.token.id]
    assert ServiceRecord.objects.get(type="token.revoked").facts["token_id"] == other.id


def test_the_list_is_read_page_by_page(api: Caller, owner: Tenant) -> None:
    for number in range(4):
        tokens.issue(owner.account, f"token {number}")
    seen, cursor = [], ""
    while True:
        page = api("GET", f"{PATH}?limit=2&cursor={cursor}").json()["data"]
        seen += [row["id"] for row in page["items"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == 5


def test_tokens_that_have_been_dead_for_long_are_forgotten_and_others_stay(owner: Tenant) -> None:
    long_ago = timezone.now() - tokens.DEAD_KEPT - timedelta(days=1)
    kept = [tokens.issue(owner.account, name)[0] for name in ("revoked now", "expired now")]
    ApiToken.objects.filter(id=kept[0].id).update(revoked_at=timezone.now())
    ApiToken.objects.filter(id=kept[1].id).update(expires_at=timezone.now())
    for field in ("revoked_at", "expires_at"):
        ApiToken.objects.filter(id=tokens.issue(owner.account, field)[0].id).update(**{field: long_ago})
    assert tokens.forget_dead() == 2
    assert {one.id for one in ApiToken.objects.all()} == {owner.token.id, *(token.id for token in kept)}
