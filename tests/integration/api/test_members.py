"""Members of an account over the API: who may change them, and that somebody can always manage the account."""

import pytest

from sessions_app.models import Membership, ServiceRecord
from sessions_app.roles import Role
from tests.support.api import Caller, error_of, new_key
from tests.support.fleet import Tenant
from tests.support.people import caller_of, member, person
from tests.support.threads import at_once

PATH = "/api/v2/members"


def test_an_owner_adds_reads_changes_and_removes_a_member(api: Caller, owner: Tenant) -> None:
    first = member(owner.account, "ada", Role.OWNER)
    member_of_nothing = member(owner.account, "bob", Role.READER)
    member_of_nothing.delete()
    added = caller_of(first)("POST", PATH, {"user": "bob", "role": "reader"})
    assert added.status_code == 201
    row = added.json()["data"]
    assert (row["user"], row["role"], row["active"]) == ("bob", "reader", True)
    changed = api("PATCH", f"{PATH}/{row['id']}", {"role": "operator"})
    assert changed.json()["data"]["role"] == "operator"
    assert {(one["user"], one["role"]) for one in api("GET", PATH).json()["data"]["items"]} == {("ada", "owner"), ("bob", "operator")}
    assert api("DELETE", f"{PATH}/{row['id']}").json()["data"]["removed"] is True
    told = ServiceRecord.objects.filter(account_id=owner.account.id, type__startswith="member.").order_by("id")
    assert [line.type for line in told] == ["member.added", "member.changed", "member.removed"]
    assert "bob" not in str([line.facts for line in told])


def test_a_member_who_is_removed_is_out_and_does_not_come_back_with_his_old_token(api: Caller, owner: Tenant) -> None:
    member(owner.account, "ada", Role.OWNER)
    bob = member(owner.account, "bob", Role.READER)
    his = caller_of(bob)
    assert his("GET", "/api/whoami").json()["role"] == "reader"
    assert api("DELETE", f"{PATH}/{bob.id}").json()["data"]["tokens_revoked"] == 1
    assert his("GET", "/api/whoami").status_code == 401
    assert api("POST", PATH, {"user": "bob", "role": "owner"}).status_code == 201
    assert his("GET", "/api/whoami").status_code == 401


def test_the_last_owner_is_neither_removed_nor_demoted(api: Caller, owner: Tenant) -> None:
    ada = member(owner.account, "ada", Role.OWNER)
    for method, body in (("DELETE", None), ("PATCH", {"role": "operator"})):
        refused = api(method, f"{PATH}/{ada.id}", body)
        assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_last_owner")
    assert api("PATCH", f"{PATH}/{ada.id}", {"role": "owner"}).status_code == 200


def test_an_owner_who_cannot_sign_in_does_not_count(api: Caller, owner: Tenant) -> None:
    ada, bob = member(owner.account, "ada", Role.OWNER), member(owner.account, "bob", Role.OWNER)
    type(bob.user).objects.filter(id=bob.user_id).update(is_active=False)
    assert error_of(api("DELETE", f"{PATH}/{ada.id}"))["code"] == "ks_last_owner"
    assert api("DELETE", f"{PATH}/{bob.id}").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_owners_who_demote_each_other_at_the_same_moment_leave_one(owner: Tenant) -> None:
    rows = [member(owner.account, name, Role.OWNER) for name in ("ada", "bob", "cyd", "dan")]
    callers = [caller_of(row) for row in rows]
    answers = at_once(4, lambda number: callers[number]("PATCH", f"{PATH}/{rows[number].id}", {"role": "reader"}).status_code)
    assert sorted(answers) == [200, 200, 200, 409]
    assert Membership.objects.filter(role=Role.OWNER).count() == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"user": "nobody", "role": "reader"}, 404, "ks_not_found"),
        ({"user": "ada", "role": "reader"}, 409, "ks_conflict"),
        ({"user": "ada", "role": "king"}, 400, "ks_invalid"),
        ({"user": "a\x00da", "role": "reader"}, 400, "ks_invalid"),
    ],
)
def test_who_cannot_be_added_is_told_and_nobody_is(api: Caller, owner: Tenant, body: dict[str, str], status: int, code: str) -> None:
    member(owner.account, "ada", Role.OWNER)
    refused = api("POST", PATH, body)
    assert (refused.status_code, error_of(refused)["code"]) == (status, code)
    assert Membership.objects.count() == 1


def test_a_user_who_is_not_active_cannot_be_added(api: Caller, owner: Tenant) -> None:
    member(owner.account, "ada", Role.READER).delete()
    ada = person("ada")
    ada.is_active = False
    ada.save()
    assert api("POST", PATH, {"user": "ada", "role": "reader"}).status_code == 404


def test_another_accounts_member_does_not_exist(api: Caller, stranger: Tenant) -> None:
    theirs = member(stranger.account, "eve", Role.READER)
    for method, body in (("PATCH", {"role": "owner"}), ("DELETE", None)):
        assert error_of(api(method, f"{PATH}/{theirs.id}", body))["code"] == "ks_not_found"
    assert api("GET", PATH).json()["data"]["items"] == []
    theirs.refresh_from_db()
    assert theirs.role == Role.READER


def test_a_repeated_request_under_one_key_adds_once_and_answers_the_same(api: Caller, owner: Tenant) -> None:
    member(owner.account, "bob", Role.READER).delete()
    key = new_key()
    first, second = (api("POST", PATH, {"user": "bob", "role": "reader"}, key=key) for _ in range(2))
    assert (first.status_code, second.status_code, second["KS-Operation-Replayed"]) == (201, 201, "true")
    assert first.json() == second.json()
