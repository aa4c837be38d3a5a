"""A terminal signs in over HTTP, as the published client does it."""

from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from sessions_app.models import DeviceGrant, Membership
from sessions_app.roles import Role, Scope
from sessions_app.services import device_grant
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant
from tests.support.people import member

CODE, TOKEN = "/api/device/code", "/api/device/token"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def ada(owner: Tenant) -> Membership:
    return member(owner.account, "ada", Role.OWNER)


def _form(path: str, **fields: str) -> Any:
    return Client(headers={"User-Agent": "ks/1.0"}).post(path, urlencode(fields), content_type=FORM)


def _decide(codes: dict[str, Any], ada: Membership) -> None:
    grant = device_grant.find(codes["user_code"])
    assert grant is not None
    device_grant.approve(grant, ada.user, ada.account, list(Scope))
    DeviceGrant.objects.update(polled_at=None)


def test_a_terminal_signs_in_with_forms_as_the_client_sends_them(ada: Membership) -> None:
    begun = _form(CODE)
    assert (begun.status_code, begun["Cache-Control"]) == (200, "no-store")
    codes = begun.json()
    assert set(codes) == {"device_code", "user_code", "verification_uri", "verification_uri_complete", "expires_in", "interval"}
    assert codes["verification_uri"] == "http://testserver/device"
    assert codes["verification_uri_complete"] == f"http://testserver/device?user_code={codes['user_code']}"
    pending = _form(TOKEN, device_code=codes["device_code"])
    assert (pending.status_code, error_of(pending)["code"], pending["Retry-After"]) == (428, "ks_authorization_pending", "5")
    hasty = _form(TOKEN, device_code=codes["device_code"])
    assert (hasty.status_code, error_of(hasty)["code"], hasty["Retry-After"]) == (429, "ks_slow_down", "5")
    _decide(codes, ada)
    given = _form(TOKEN, device_code=codes["device_code"])
    assert (given.status_code, given["Cache-Control"]) == (200, "no-store")
    assert given.json()["scope"] == "sessions:read sessions:write account:manage"
    me = Caller(given.json()["token"])("GET", "/api/whoami").json()
    assert (me["user"], me["role"], me["token_id"], me["account_id"]) == ("ada", "owner", given.json()["token_id"], ada.account_id)
    assert me["expires_at"] is not None
    again = _form(TOKEN, device_code=codes["device_code"])
    assert (again.status_code, error_of(again)["code"]) == (400, "ks_expired_token")


def test_json_is_taken_as_well(ada: Membership) -> None:
    anybody = Caller(None)
    codes = anybody("POST", CODE, {"scope": "sessions:read"}).json()
    assert DeviceGrant.objects.get().requested_scopes == ["sessions:read"]
    _decide(codes, ada)
    assert anybody("POST", TOKEN, {"device_code": codes["device_code"]}).status_code == 200


def test_a_denied_sign_in_is_told(ada: Membership) -> None:
    codes = _form(CODE).json()
    grant = device_grant.find(codes["user_code"])
    assert grant is not None
    device_grant.deny(grant)
    refused = _form(TOKEN, device_code=codes["device_code"])
    assert (refused.status_code, error_of(refused)["code"]) == (403, "ks_access_denied")


@pytest.mark.parametrize("device_code", ["unknown", "x" * 200, "ü", "\x7f"])
def test_a_code_that_is_none_is_expired(db: None, device_code: str) -> None:
    refused = _form(TOKEN, device_code=device_code)
    assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_expired_token")


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        (TOKEN, b"", FORM), (TOKEN, b"device_code=a&device_code=b", FORM), (TOKEN, b"device_code=%ff%fe", FORM),
        (TOKEN, b"device_code=x&more=1", FORM), (TOKEN, b"device_code", FORM), (TOKEN, b"\xff", FORM), (TOKEN, b"a=1&" * 5000, FORM),
        (TOKEN, b"device_code=%00", FORM), (CODE, b"scope=everything", FORM), (CODE, b"client=evil", FORM),
        (CODE, b"[]", "application/json"),
    ],
)  # fmt: skip
def test_a_malformed_request_is_refused_and_begins_nothing(db: None, path: str, body: bytes, kind: str) -> None:
    refused = Client().post(path, body, content_type=kind)
    assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_invalid")
    assert not DeviceGrant.objects.exists()


def test_other_kinds_of_bodies_are_refused(db: None) -> None:
    refused = Client().post(CODE, b"<a/>", content_type="application/xml")
    assert (refused.status_code, error_of(refused)["code"]) == (415, "ks_unsupported_media_type")


def test_other_routes_take_no_forms(owner: Tenant) -> None:
    refused = Client(headers={"Authorization": f"Bearer {owner.plain}"}).post("/api/v2/tokens", "name=x", content_type=FORM)
    assert refused.status_code == 415


def test_a_host_that_this_service_is_not_is_told_no_page(db: None) -> None:
    refused = Client().post(CODE, headers={"Host": "evil.example"})
    assert refused.status_code == 400
    assert not DeviceGrant.objects.exists()
