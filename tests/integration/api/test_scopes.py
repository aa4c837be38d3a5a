"""Every route asks for a scope, and does nothing for a token that lacks it."""

import pytest

from sessions_app.api.auth import ANY_TOKEN, Needs
from sessions_app.models import ApiToken, Membership, Operation, Session
from sessions_app.roles import ROLE_SCOPES, Role, Scope
from sessions_app.services import token as tokens
from tests.integration.api.routes import PUBLIC, Route, label, routes
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, boot_asked, session_row
from tests.support.people import caller_of, member

#: Routes that any live token may use: they tell about the token and the service alone.
FREE = {"whoami", "token-revoke", "capabilities"}
SCOPED = [route for route in routes() if route.name not in PUBLIC | FREE]


def test_only_what_tells_of_the_token_itself_takes_any_token() -> None:
    assert {route.name for route in routes() if route.needs == ANY_TOKEN} - PUBLIC == FREE


def _scope(route: Route) -> Scope:
    needs: Needs = route.needs
    scope = needs.reading if route.method == "GET" else needs.writing
    assert scope is not None
    return scope


@pytest.mark.parametrize("route", SCOPED, ids=label)
def test_a_role_that_does_not_suffice_is_forbidden_on_every_route_and_does_nothing(owner: Tenant, route: Route) -> None:
    scope = _scope(route)
    session, operation = session_row(owner.account, saved=True), boot_asked(owner.account)
    before = (Session.objects.count(), Operation.objects.count(), Membership.objects.count())
    for role in (role for role in Role if scope not in ROLE_SCOPES[role]):
        weak = member(owner.account, role, role)
        refused = caller_of(weak)(route.method, route.path(session=session.id, operation=operation.id), route.body)
        assert (refused.status_code, error_of(refused)["code"], error_of(refused)["missing_scope"]) == (403, "ks_forbidden", scope), role
        weak.delete()
    assert (Session.objects.count(), Operation.objects.count(), Membership.objects.count()) == before


@pytest.mark.parametrize("route", SCOPED, ids=label)
def test_without_its_scope_a_route_is_forbidden_by_name_and_does_nothing(owner: Tenant, route: Route) -> None:
    scope = _scope(route)
    _, plain = tokens.issue(owner.account, "narrow", scopes=set(Scope) - {scope})
    session, operation = session_row(owner.account, saved=True), boot_asked(owner.account)
    before = (Session.objects.count(), Operation.objects.count(), ApiToken.objects.count())
    refused = Caller(plain)(route.method, route.path(session=session.id, operation=operation.id), route.body)
    assert (refused.status_code, error_of(refused)["code"], error_of(refused)["missing_scope"]) == (403, "ks_forbidden", scope)
    assert scope in error_of(refused)["message"]
    assert (Session.objects.count(), Operation.objects.count(), ApiToken.objects.count()) == before


def test_only_what_shows_and_changes_nothing_is_content_with_reading() -> None:
    posts = {route.name for route in SCOPED if route.method != "GET" and _scope(route) == Scope.SESSIONS_READ}
    assert posts <= {"preflight", "retention-preview", "session-retention-preview"}


def test_a_token_that_may_only_read_reads(owner: Tenant) -> None:
    session = session_row(owner.account)
    reader = Caller(tokens.issue(owner.account, "reader", scopes=[Scope.SESSIONS_READ])[1])
    assert reader("GET", f"/api/v2/sessions/{session.id}").status_code == 200
    assert reader("GET", "/api/whoami").json()["scopes"] == ["sessions:read"]


def test_what_a_request_was_answered_is_read_by_its_key_only_by_who_may_ask_it(owner: Tenant, api: Caller) -> None:
    api("POST", "/api/v2/webhooks", {"url": "https://example.com/hook"}, key="ksop_0123456789abcdef")
    path = "/api/operations/ksop_0123456789abcdef"
    refused = caller_of(member(owner.account, "looks on", Role.READER))("GET", path)
    assert (refused.status_code, error_of(refused)["missing_scope"]) == (403, Scope.ACCOUNT_MANAGE)
    assert api("GET", path).json()["data"]["response"]["url"] == "https://example.com/hook"
