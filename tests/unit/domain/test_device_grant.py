"""A terminal's sign-in: one decision, one token, and an end for everybody."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from sessions_app.errors import (
    AccessDenied,
    AuthorizationPending,
    Conflict,
    ExpiredCode,
    Forbidden,
    ServiceError,
    SlowDown,
    Throttled,
    WrongState,
)
from sessions_app.models import ApiToken, DeviceGrant, Membership
from sessions_app.roles import Role, Scope
from sessions_app.services import bounds, device_grant
from sessions_app.services import token as tokens
from sessions_app.services.device_grant import Codes
from sessions_app.states import DeviceGrantState
from tests.support.fleet import Tenant
from tests.support.people import member
from tests.support.threads import at_once

READ, WRITE, MANAGE = Scope.SESSIONS_READ, Scope.SESSIONS_WRITE, Scope.ACCOUNT_MANAGE


@pytest.fixture
def ada(owner: Tenant) -> Membership:
    return member(owner.account, "ada", Role.OWNER)


@pytest.fixture
def codes(ada: Membership) -> Codes:
    return device_grant.begin(client="terminal/1", address="192.0.2.1")


def _grant(codes: Codes) -> DeviceGrant:
    found = device_grant.find(codes.user_code)
    assert found is not None
    return found


def _approve(codes: Codes, ada: Membership, *scopes: Scope) -> list[Scope]:
    return device_grant.approve(_grant(codes), ada.user, ada.account, scopes or (READ, WRITE))


def _soon() -> None:
    """As if the interval had passed."""
    DeviceGrant.objects.update(polled_at=None)


def test_an_approved_sign_in_gives_one_token_of_that_user_account_and_scopes(codes: Codes, ada: Membership) -> None:
    with pytest.raises(AuthorizationPending):
        device_grant.poll(codes.device_code)
    _approve(codes, ada)
    _soon()
    _, plain = device_grant.poll(codes.device_code)
    token = tokens.authenticate(plain)
    assert (token.user, token.account, token.effective_scopes) == (ada.user, ada.account, [READ, WRITE])
    assert token.expires_at is not None
    _soon()
    with pytest.raises(ExpiredCode):
        device_grant.poll(codes.device_code)
    assert ApiToken.objects.filter(user=ada.user).count() == 1


def test_a_denied_sign_in_gives_none_and_is_not_approved_afterwards(codes: Codes, ada: Membership) -> None:
    grant = _grant(codes)
    device_grant.deny(grant)
    with pytest.raises(AccessDenied):
        device_grant.poll(codes.device_code)
    with pytest.raises(WrongState):
        device_grant.approve(grant, ada.user, ada.account, [READ])
    assert device_grant.find(codes.user_code) is None


def test_a_sign_in_that_is_over_can_be_neither_decided_on_nor_polled(codes: Codes, ada: Membership) -> None:
    grant = _grant(codes)
    DeviceGrant.objects.update(expires_at=timezone.now())
    assert device_grant.find(codes.user_code) is None
    with pytest.raises(WrongState):
        device_grant.approve(grant, ada.user, ada.account, [READ])
    with pytest.raises(ExpiredCode):
        device_grant.poll(codes.device_code)


def test_an_approval_that_nobody_fetched_in_time_gives_no_token(codes: Codes, ada: Membership) -> None:
    _approve(codes, ada)
    DeviceGrant.objects.update(expires_at=timezone.now())
    with pytest.raises(ExpiredCode):
        device_grant.poll(codes.device_code)
    assert not ApiToken.objects.filter(user=ada.user).exists()


@pytest.mark.parametrize("lost", ["membership", "active"])
def test_what_the_approver_has_lost_by_then_the_terminal_does_not_get(codes: Codes, ada: Membership, lost: str) -> None:
    _approve(codes, ada)
    if lost == "membership":
        ada.delete()
    else:
        type(ada.user).objects.update(is_active=False)
    for _ in range(2):
        with pytest.raises(AccessDenied):
            device_grant.poll(codes.device_code)
        _soon()
    assert not ApiToken.objects.filter(name__startswith="device").exists()


def test_nobody_approves_more_than_his_role_has_nor_for_an_account_that_is_not_his(codes: Codes, ada: Membership, stranger: Tenant) -> None:
    Membership.objects.filter(id=ada.id).update(role=Role.READER)
    for account, scopes in ((ada.account, [MANAGE, WRITE]), (stranger.account, [READ]), (ada.account, [])):
        with pytest.raises(Forbidden):
            device_grant.approve(_grant(codes), ada.user, account, scopes)
    assert _approve(codes, ada, READ, MANAGE) == [READ]


def test_polls_before_their_time_are_told_to_slow_down_and_change_nothing(
    codes: Codes, ada: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_grant, "INTERVAL_SECONDS", 600)
    with pytest.raises(AuthorizationPending):
        device_grant.poll(codes.device_code)
    _approve(codes, ada)
    with pytest.raises(SlowDown) as refused:
        device_grant.poll(codes.device_code)
    assert refused.value.retry_after_seconds == device_grant.INTERVAL_SECONDS
    DeviceGrant.objects.update(polled_at=timezone.now() - timedelta(seconds=device_grant.INTERVAL_SECONDS - 0.5))
    assert device_grant.poll(codes.device_code)


def test_an_account_full_of_tokens_keeps_the_approval(codes: Codes, ada: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    _approve(codes, ada)
    monkeypatch.setattr(bounds, "TOKENS", 1)
    with pytest.raises(Conflict):
        device_grant.poll(codes.device_code)
    monkeypatch.undo()
    _soon()
    assert device_grant.poll(codes.device_code)


@pytest.mark.parametrize("typed", [str.lower, lambda code: code.replace("-", ""), lambda code: f" {code[:4]} {code[5:]} "])
def test_the_short_code_is_found_however_it_is_typed(codes: Codes, typed: Any) -> None:
    assert device_grant.find(typed(codes.user_code)) is not None


def test_no_code_lies_in_the_table(codes: Codes) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(g)::text FROM sessions_app_devicegrant g")
        text = cursor.fetchone()[0]
    for secret in (codes.device_code, codes.user_code, codes.user_code.replace("-", ""), tokens.digest(codes.user_code)):
        assert secret not in text


def test_sign_ins_that_wait_are_bounded_by_address_and_altogether(codes: Codes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "DEVICE_GRANTS_OF_ADDRESS", 2)
    device_grant.begin(client="", address="192.0.2.1")
    with pytest.raises(Throttled):
        device_grant.begin(client="", address="192.0.2.1")
    device_grant.begin(client="", address="192.0.2.2")
    monkeypatch.setattr(bounds, "DEVICE_GRANTS", 3)
    with pytest.raises(Throttled):
        device_grant.begin(client="", address="192.0.2.3")
    assert DeviceGrant.objects.count() == 3


def test_what_a_terminal_says_of_itself_is_bounded_and_printable(ada: Membership) -> None:
    codes = device_grant.begin(client="\x1b[31mcurl\n" + "x" * 1000, address="")
    client = _grant(codes).client
    assert client.startswith("?[31mcurl?")
    assert len(client) == 200


def test_sign_ins_that_are_over_are_forgotten(codes: Codes) -> None:
    assert device_grant.forget_old() == 0
    DeviceGrant.objects.update(expires_at=timezone.now() - timedelta(hours=2))
    assert device_grant.forget_old() == 1


@pytest.mark.django_db(transaction=True)
def test_of_polls_at_the_same_moment_one_gets_the_token(codes: Codes, ada: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_grant, "_keep_pace", lambda grant: None)  # else the pace alone would let one through
    _approve(codes, ada)

    def poll(_: int) -> str:
        try:
            return device_grant.poll(codes.device_code)[1]
        except ServiceError as error:
            return error.word

    answers = at_once(6, poll)
    assert answers.count("ks_expired_token") == 5
    assert ApiToken.objects.filter(user=ada.user).count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_decisions_at_the_same_moment_one_counts(codes: Codes, ada: Membership) -> None:
    grant = _grant(codes)

    def decide(number: int) -> str:
        try:
            if number % 2:
                device_grant.deny(grant)
            else:
                device_grant.approve(grant, ada.user, ada.account, [READ])
        except WrongState:
            return "late"
        return "denied" if number % 2 else "approved"

    answers = at_once(6, decide)
    assert answers.count("late") == 5
    assert DeviceGrant.objects.get().state in {str(DeviceGrantState(one)) for one in answers if one != "late"}
