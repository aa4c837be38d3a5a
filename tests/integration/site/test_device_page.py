"""The page at which a person lets a terminal in, as a browser meets it."""

from typing import Any

import pytest
from django.test import Client

from sessions_app.models import DeviceGrant, Membership
from sessions_app.roles import Role
from sessions_app.services import device_grant
from sessions_app.services.device_grant import Codes
from tests.support.fleet import Tenant
from tests.support.people import PASSWORD, member

PAGE = "/device"


@pytest.fixture
def ada(owner: Tenant) -> Membership:
    return member(owner.account, "ada", Role.OPERATOR)


@pytest.fixture
def codes(ada: Membership) -> Codes:
    return device_grant.begin(client="ks/1.0 <script>alert(1)</script>", address="192.0.2.7")


@pytest.fixture
def browser(ada: Membership) -> Client:
    """Signed in as ada; it enforces CSRF, as a browser's requests are judged."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada.user)
    return client


def _fields(browser: Client, codes: Codes, ada: Membership, **others: Any) -> dict[str, Any]:
    """The form as the page has it, filled in."""
    browser.get(PAGE, {"user_code": codes.user_code})
    crumb = browser.cookies["csrftoken"].value
    filled = {"account": ada.account_id, "scopes": ["sessions:read", "sessions:write"], "decision": "approve"}
    return {"csrfmiddlewaretoken": crumb, "user_code": codes.user_code, **filled, **others}


def _state() -> str:
    return DeviceGrant.objects.get().state


def test_a_person_signs_in_compares_the_code_and_lets_the_terminal_in(codes: Codes, ada: Membership) -> None:
    browser = Client()
    asked = browser.get(PAGE, {"user_code": codes.user_code})
    assert asked.status_code == 302
    page = browser.post(asked["Location"], {"username": "ada", "password": PASSWORD}, follow=True)
    assert page.request["QUERY_STRING"] == f"user_code={codes.user_code}"
    text = page.content.decode()
    for shown in (codes.user_code, "192.0.2.7", "ks/1.0 &lt;script&gt;", "owner (you are operator)", "your own terminal shows exactly"):
        assert shown in text
    assert "<script" not in text
    done = browser.post(PAGE, _fields(browser, codes, ada))
    assert "Approved" in done.content.decode()
    assert device_grant.poll(codes.device_code)[0].user == ada.user


def test_nothing_is_approved_by_looking(browser: Client, codes: Codes, ada: Membership) -> None:
    fields = _fields(browser, codes, ada)
    assert browser.get(PAGE, fields).status_code == 200
    assert browser.head(PAGE, fields).status_code == 200
    assert _state() == "pending"


def test_nothing_is_decided_without_the_pages_own_form(browser: Client, codes: Codes, ada: Membership) -> None:
    for decision in ("approve", "deny"):
        forged = {**_fields(browser, codes, ada, decision=decision), "csrfmiddlewaretoken": "x" * 64}
        assert browser.post(PAGE, forged).status_code == 403
    assert _state() == "pending"


def test_nobody_decides_who_is_not_signed_in(codes: Codes, ada: Membership) -> None:
    refused = Client().post(
        PAGE, {"user_code": codes.user_code, "decision": "approve", "account": ada.account_id, "scopes": "sessions:read"}
    )
    assert (refused.status_code, refused["Location"]) == (302, "/device/login?next=/device")
    assert _state() == "pending"


def test_a_sign_in_is_denied(browser: Client, codes: Codes, ada: Membership) -> None:
    assert "Denied" in browser.post(PAGE, _fields(browser, codes, ada, decision="deny")).content.decode()
    assert _state() == "denied"


@pytest.mark.parametrize(
    "wrong",
    [
        {"decision": ""},
        {"decision": "maybe"},
        {"scopes": []},
        {"scopes": ["account:manage"]},
        {"account": "acct_elsewhere"},
        {"account": ""},
    ],
)
def test_a_form_that_chooses_nothing_or_too_much_is_shown_again_and_approves_nothing(
    browser: Client, codes: Codes, ada: Membership, wrong: dict[str, Any]
) -> None:
    assert browser.post(PAGE, _fields(browser, codes, ada, **wrong)).status_code == 400
    assert _state() == "pending"


def test_the_account_of_another_is_not_offered_and_not_taken(browser: Client, codes: Codes, ada: Membership, stranger: Tenant) -> None:
    assert "stranger" not in browser.get(PAGE, {"user_code": codes.user_code}).content.decode()
    assert browser.post(PAGE, _fields(browser, codes, ada, account=stranger.account.id)).status_code == 400
    assert _state() == "pending"


def test_a_user_of_no_account_is_told_so_and_approves_nothing(browser: Client, codes: Codes, ada: Membership) -> None:
    fields = _fields(browser, codes, ada)
    ada.delete()
    page = browser.get(PAGE, {"user_code": codes.user_code}).content.decode()
    assert "belongs to no account" in page
    assert 'value="approve"' not in page
    assert browser.post(PAGE, fields).status_code == 400
    assert _state() == "pending"


def test_a_code_that_nobody_waits_with_is_told_and_one_that_was_decided_too(browser: Client, codes: Codes, ada: Membership) -> None:
    fields = _fields(browser, codes, ada)
    assert browser.get(PAGE, {"user_code": "BBBB-BBBB"}).status_code == 404
    assert browser.post(PAGE, fields).status_code == 200
    assert browser.post(PAGE, fields).status_code == 404


def test_the_page_without_a_code_asks_for_one(browser: Client) -> None:
    page = browser.get(PAGE)
    assert (page.status_code, "no-store" in page["Cache-Control"]) == (200, True)
    assert 'name="user_code"' in page.content.decode()


@pytest.mark.parametrize("path", [PAGE, "/device?user_code=BBBB-BBBB", "/device/login"])
def test_pages_load_nothing_from_elsewhere_and_hold_no_script_or_inline_style(browser: Client, path: str) -> None:
    page = browser.get(path)
    text = page.content.decode()
    assert "default-src 'self'" in page["Content-Security-Policy"]
    assert not any(found in text for found in ("http://", "https://", "<script", "style=", "<style"))


def test_signing_in_leads_to_no_other_site(ada: Membership) -> None:
    answer = Client().post(
        "/device/login?next=https://evil.example/", {"username": "ada", "password": PASSWORD, "next": "https://evil.example/"}
    )
    assert (answer.status_code, answer["Location"]) == (302, "/device")
