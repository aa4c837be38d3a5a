"""Who may do what: every route, without a token, with a dead one, with a stranger's, with too old a client."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from sessions_app.models import ApiToken, Operation, Session
from sessions_app.services import token as tokens
from sessions_app.states import SessionState
from tests.integration.api.routes import PUBLIC, Route, label, routes
from tests.support.api import Caller, caller, error_of
from tests.support.fleet import Tenant, boot_asked, session_row

CLOSED = [route for route in routes() if route.name not in PUBLIC]
RECORDS = [route for route in CLOSED if route.names_a_record]
NOWHERE = {"session": "0" * 32, "operation": "op_" + "0" * 24}


def test_the_matrix_covers_the_api() -> None:
    assert len(CLOSED) >= 14
    assert len(RECORDS) >= 10


def _is_challenge(response: Any) -> bool:
    return (
        response.status_code == 401
        and response["WWW-Authenticate"].startswith("Bearer")
        and error_of(response)["code"] == "ks_unauthenticated"
    )


@pytest.mark.parametrize("route", CLOSED, ids=label)
def test_no_route_answers_without_a_token(owner: Tenant, route: Route) -> None:
    assert _is_challenge(Caller(None)(route.method, route.path(**NOWHERE), route.body))


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "Bearer ks_unknown", "ks_unknown", "Bearer \x7f\xff", "Bearer " + "x" * 5000]
)
def test_a_header_that_holds_no_live_token_is_challenged(owner: Tenant, header: str) -> None:
    assert _is_challenge(Caller(None)("GET", "/api/whoami", Authorization=header))


def test_the_scheme_is_read_in_any_case(owner: Tenant) -> None:
    assert Caller(None)("GET", "/api/whoami", Authorization=f"bearer {owner.plain}").status_code == 200


@pytest.mark.parametrize("route", RECORDS, ids=label)
@pytest.mark.parametrize("state", [SessionState.RUNNING, SessionState.PARKED])
def test_a_strangers_records_do_not_exist(owner: Tenant, stranger: Tenant, route: Route, state: SessionState) -> None:
    session, operation = session_row(owner.account, state, saved=True), boot_asked(owner.account)
    before = (Session.objects.count(), Operation.objects.count())
    refused = caller(stranger)(route.method, route.path(session=session.id, operation=operation.id), route.body)
    missing = caller(stranger)(route.method, route.path(**NOWHERE), route.body)
    assert (refused.status_code, error_of(refused)["code"]) == (404, "ks_not_found")
    assert refused.json() == missing.json()
    assert (Session.objects.count(), Operation.objects.count()) == before


def test_a_list_holds_only_the_accounts_own(api: Caller, owner: Tenant, stranger: Tenant) -> None:
    session_row(stranger.account)
    mine = session_row(owner.account)
    assert [row["id"] for row in api("GET", "/api/v2/sessions?source=fleet&all=1").json()["data"]["items"]] == [mine.id]


def test_a_strangers_cursor_shows_only_the_callers_own(owner: Tenant, stranger: Tenant) -> None:
    for tenant in (owner, owner, owner, stranger, stranger):
        session_row(tenant.account)
    cursor = caller(owner)("GET", "/api/v2/sessions?limit=1").json()["data"]["next_cursor"]
    rows = caller(stranger)("GET", f"/api/v2/sessions?source=fleet&cursor={cursor}").json()["data"]["items"]
    assert {Session.objects.get(id=row["id"]).account_id for row in rows} <= {stranger.account.id}


def test_whoami_names_the_account_and_never_the_token(api: Caller, owner: Tenant) -> None:
    answer = api("GET", "/api/whoami")
    assert answer.json()["account_id"] == owner.account.id
    assert owner.plain not in answer.content.decode()
    assert owner.token.digest not in answer.content.decode()


def test_a_revoked_token_is_dead_at_once_and_another_of_the_account_lives(api: Caller, owner: Tenant) -> None:
    _, other = tokens.issue(owner.account, "other")
    revoked = api("POST", "/api/tokens/revoke", b"")
    assert (revoked.status_code, revoked.json()["revoked"]) == (200, True)
    assert _is_challenge(api("POST", "/api/tokens/revoke", b""))
    assert _is_challenge(api("GET", "/api/whoami"))
    assert Caller(other)("GET", "/api/whoami").status_code == 200


def test_an_expired_token_is_dead(api: Caller, owner: Tenant) -> None:
    ApiToken.objects.filter(id=owner.token.id).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert _is_challenge(api("GET", "/api/whoami"))


def test_reading_does_not_become_writing(api: Caller, owner: Tenant) -> None:
    api("GET", "/api/whoami")
    first = ApiToken.objects.get(id=owner.token.id).last_used_at
    api("GET", "/api/whoami")
    assert first is not None
    assert ApiToken.objects.get(id=owner.token.id).last_used_at == first


@pytest.mark.parametrize("route", list(routes()), ids=label)
def test_too_old_a_client_is_refused_by_name_on_every_route(api: Caller, route: Route) -> None:
    refused = api(route.method, route.path(**NOWHERE), route.body, X_KS_Protocol="1")
    assert (refused.status_code, error_of(refused)["code"]) == (426, "ks_client_too_old")
    assert not Operation.objects.exists()


@pytest.mark.parametrize("number", ["two", "-2", "2.0", "", "9" * 40, "²"])
def test_a_protocol_that_is_no_number_is_refused(api: Caller, number: str) -> None:
    assert api("GET", "/api/whoami", X_KS_Protocol=number).status_code == 400


def test_a_newer_client_is_served(api: Caller) -> None:
    assert api("GET", "/api/whoami", X_KS_Protocol="3").status_code == 200


def test_a_browser_cookie_opens_nothing(owner: Tenant, admin_client: Any) -> None:
    assert admin_client.get("/api/whoami").status_code == 401
