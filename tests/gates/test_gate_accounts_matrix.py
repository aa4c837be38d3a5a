"""Gate: every route with every other account's records, and with each role. The routes are those of the URL configuration."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from sessions_app.models import Operation, Session
from sessions_app.roles import Scope
from sessions_app.services import operation as operations
from sessions_app.services import session as sessions
from tests.gates.accounts.asking import CannotFill, Ids, Request, ask, fill
from tests.gates.accounts.rows import digests, undone
from tests.gates.accounts.scene import MARK, Scene, build
from tests.integration.api.routes import PUBLIC, Route, label, routes
from tests.support.api import Caller, close_streams, error_of
from tests.support.fixtures import doorbells, heard_of, owner
from tests.support.fleet import Tenant

__all__ = ["doorbells", "heard_of", "owner"]
pytestmark = pytest.mark.usefixtures("heard_of")
ROUTES = list(routes())
CLOSED = [route for route in ROUTES if route.name not in PUBLIC]
#: A mutation's method and no mutation: what a reader may do with a POST.
READERS_POSTS = frozenset({"preflight", "retention-preview", "session-retention-preview", "token-revoke"})
#: Changes that end the account or are about who may enter it: never an operator's, whatever the route says that it needs.
MANAGERS_ROUTES = ("api/v2/account", "api/v2/members", "api/v2/tokens", "api/v2/webhooks", "api/v2/keys")
#: Routes whose owner is told that there is no such record all the same, and of what.
OWNERS_MISSES = {"members": "the user of that name"}
#: A plan that is not looked at, for nothing expires by it: it opens nothing, and the request is about the caller's own account.
PLAN_NOT_READ = frozenset({("DELETE", "retention"), ("DELETE", "session-retention")})
Judge = Callable[[Request, Any], str | None]


@pytest.fixture
def scene(owner: Tenant) -> Scene:
    return build(owner)


def faults(scene: Scene, who: str, requests: Iterator[Request], judge: Judge) -> list[str]:
    """What each request did that it must not: its answer, the mark in it, a row of the victim that is another than before."""
    found, victims = [], [scene.owner.account.id, *scene.victim.by_name.values()]
    before = digests(victims)
    for request in requests:
        with undone():
            answer = ask(scene.callers[who], request)
            wrong = judge(request, answer)
            if wrong is None and who != "owner" and not answer.streaming and MARK.encode() in answer.content:
                wrong = "shows what is the victim's" if who == "stranger" else None
            refused = answer.status_code >= 400
            if wrong is None and (refused or who == "stranger") and digests(victims) != before:
                wrong = "was refused and changed the victim's rows" if refused else "changed the victim's rows"
        close_streams()
        if wrong:
            found.append(f"{who}: {label(request.route)} {answer.status_code} {wrong}")
    return found


def code_of(answer: Any) -> str:
    return str(error_of(answer)["code"]) if not answer.streaming else "streams"


def kept_out(request: Request, answer: Any) -> str | None:
    if not request.names or (request.route.method, request.route.name) == ("DELETE", "retention"):
        return None if answer.status_code < 500 else "failed"
    right = answer.status_code in (401, 403) or (answer.status_code == 404 and code_of(answer) == "ks_not_found")
    return None if right else "is no refusal of another's record"


def not_done(request: Request, answer: Any) -> str | None:
    if (request.route.method, request.route.name) in PLAN_NOT_READ:
        return None
    return None if 400 <= answer.status_code < 500 else "took another's record for its own"


def forbidden(request: Request, answer: Any) -> str | None:
    return None if answer.status_code == 403 and code_of(answer) == "ks_forbidden" else "was not forbidden"


def let_in(request: Request, answer: Any) -> str | None:
    if answer.status_code in (401, 403) or (answer.status_code == 404 and request.route.name not in OWNERS_MISSES):
        return "did not find its own record"
    return None if answer.status_code < 500 or answer.status_code == 503 else "failed"  # no machine of these rows can be reached


def of_victim(scene: Scene, chosen: list[Route]) -> Iterator[Request]:
    return (fill(route, scene.victim) for route in chosen)


def within_own(scene: Scene) -> Iterator[Request]:
    """Routes below a session of the stranger's own that name a record of the victim beside it."""
    own = scene.own.by_name["session_id"]
    filled = [fill(route, scene.victim, own) for route in CLOSED if "<str:session_id>" in route.pattern]
    return (request for request in filled if request.foreign)


def strangers_faults(scene: Scene) -> list[str]:
    his = replace(scene, victim=replace(scene.victim, account_name=scene.stranger.account.name))  # what he must type is his own
    return [
        *faults(scene, "stranger", of_victim(his, CLOSED), kept_out),
        *faults(scene, "stranger", within_own(scene), not_done),
    ]


@pytest.mark.gate("accounts", "no route shows or changes anything of another account, whatever ids it is given")
def test_another_accounts_records_do_not_exist(scene: Scene, evidence: dict[str, Any]) -> None:
    named = [request for request in of_victim(scene, CLOSED) if request.names]
    evidence |= {"routes": len(ROUTES), "naming_records": len(named), "below_own_session": len(list(within_own(scene)))}
    assert strangers_faults(scene) == []
    assert faults(scene, "owner", iter(named), let_in) == [], "the ids are right: their owner finds them"


@pytest.mark.gate("accounts", "no route opens without a live token of a member")
def test_no_dead_token_opens_a_route(scene: Scene, evidence: dict[str, Any]) -> None:
    evidence |= {"routes": len(CLOSED)}
    everybody = [*scene.victim.by_name.values(), *scene.own.by_name.values()]
    before = digests(everybody)
    for who in ("nobody", "revoked", "expired", "no member any more"):
        for request in of_victim(scene, CLOSED):
            answer = ask(scene.callers[who], request)
            assert (answer.status_code, code_of(answer)) == (401, "ks_unauthenticated"), (who, label(request.route))
    assert digests(everybody) == before


@pytest.mark.gate("accounts", "a reader changes nothing, an operator manages nothing")
def test_a_role_is_held_on_every_route(scene: Scene, evidence: dict[str, Any]) -> None:
    mutations = [route for route in CLOSED if route.method != "GET" and route.name not in READERS_POSTS]
    managing = [route for route in CLOSED if _scope(route) == Scope.ACCOUNT_MANAGE or (route in mutations and _is_managers(route))]
    evidence |= {"mutations": len(mutations), "managing": len(managing)}
    assert faults(scene, "reader", of_victim(scene, mutations + managing), forbidden) == []
    assert faults(scene, "operator", of_victim(scene, managing), forbidden) == []
    others = [route for route in CLOSED if route not in managing]
    assert faults(scene, "operator", of_victim(scene, others), let_in) == []


def test_a_reader_who_may_post_changes_nothing_by_it(scene: Scene) -> None:
    victims = [scene.owner.account.id, *scene.victim.by_name.values()]
    for route in CLOSED:
        if route.method != "GET" and route.name in READERS_POSTS - {"token-revoke"}:
            with undone():
                before = digests(victims)
                assert ask(scene.callers["reader"], fill(route, scene.victim)).status_code == 200, label(route)
                assert {**digests(victims), PLANS: ""} == {**before, PLANS: ""}, label(route)


#: A plan is written down, and changes nothing.
PLANS = "sessions_app_plan"


def _is_managers(route: Route) -> bool:
    return route.pattern.startswith(MANAGERS_ROUTES)


def _scope(route: Route) -> Scope | None:
    return route.needs.reading if route.method == "GET" else route.needs.writing


def _any_session(account: Any, text: str) -> Session:
    return Session.objects.filter(id__startswith=text).first() or sessions_find(account, text)


def _any_operation(account: Any, text: str) -> Operation:
    return Operation.objects.filter(id=text).first() or operations_find(account, text)


sessions_find, operations_find = sessions.find, operations.find
SABOTAGES = [(sessions, _any_session), (operations, _any_operation)]


@pytest.mark.parametrize(("module", "unscoped"), SABOTAGES, ids=lambda one: getattr(one, "__name__", ""))
def test_with_the_scoping_switched_off_in_one_place_the_gate_fails(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, module: Any, unscoped: Callable[..., Any]
) -> None:
    monkeypatch.setattr(module, "find", unscoped)
    assert strangers_faults(scene)


def test_a_route_that_names_a_record_of_an_unknown_kind_is_not_passed_over(scene: Scene) -> None:
    without = Ids({}, {}, 1, 1, "")
    for route in ROUTES:
        if route.names_a_record:
            with pytest.raises(CannotFill):
                fill(route, without)


def test_callers_are_who_they_are_said_to_be(scene: Scene) -> None:
    roles = {who: _whoami(scene.callers[who]) for who in ("owner", "operator", "reader", "stranger")}
    assert [roles["operator"]["role"], roles["reader"]["role"]] == ["operator", "reader"]
    assert roles["owner"]["account_id"] == roles["reader"]["account_id"] != roles["stranger"]["account_id"]


def _whoami(one: Caller) -> dict[str, Any]:
    return dict(one("GET", "/api/whoami").json())
