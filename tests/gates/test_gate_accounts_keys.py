"""Gate: every POST, doubled and at the same time, under one Idempotency-Key: one effect, one answer."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from sessions_app.services import operation, recorded
from sessions_app.states import SessionState
from tests.gates.accounts.asking import Request, ask, fill
from tests.gates.accounts.rows import counts
from tests.gates.accounts.scene import ids_of
from tests.integration.api.routes import BODIES, PUBLIC, Route, label, routes
from tests.integration.api.test_idempotency import REPLAYED
from tests.support.api import caller, new_key
from tests.support.fixtures import doorbells, heard_of, owner
from tests.support.fleet import Tenant, tenant
from tests.support.threads import at_once

__all__ = ["doorbells", "heard_of", "owner"]
pytestmark = pytest.mark.usefixtures("heard_of")
AT_ONCE = 4
#: A POST that has no effect which could be had twice: it reads, or what it ends is the token that asks.
NO_EFFECT = frozenset({"preflight", "token-revoke"})
POSTS = [route for route in routes() if route.method == "POST" and route.name not in PUBLIC | NO_EFFECT]
STATES = {"session-provision": None, "session-restore": SessionState.PARKED}
#: Routes that execute a plan, which is then made for them.
PLANNED = frozenset({"session-fork-by-plan", "account-deletion"})
_numbers = count()


def prepared(route: Route) -> tuple[Tenant, Request]:
    """The request of an account of its own, whose records are such that it has its effect."""
    asker = tenant(f"asker-{next(_numbers)}")
    ids = ids_of(
        asker, "mark", STATES.get(route.name) or SessionState.RUNNING, idle=route.name == "session-restore", plans=route.name in PLANNED
    )
    own = None
    get_user_model().objects.get_or_create(username=BODIES["members"]["user"])
    if route.name == "session-provision":
        own = caller(asker)("POST", "/api/v2/sessions", {"image": "tiny"}).json()["data"]["id"]
    return asker, fill(route, ids, own)


def faults(route: Route) -> list[str]:
    """What a doubled and a simultaneous request did that a single one does not do."""
    asker, request = prepared(route)
    before, key = counts(), new_key()
    first = ask(caller(asker), request, key=key)
    effect, after = difference(before), counts()
    if first.status_code >= 300:
        return [f"{label(route)} {first.status_code} has no effect here: {first.content[:200]!r}"]
    second = ask(caller(asker), request, key=key)
    found = [] if counts() == after else [f"{label(route)} doubled: {difference(after)}"]
    if (second.status_code, second.headers.get(REPLAYED)) != (first.status_code, "true") or not told_again(first, second):
        found.append(f"{label(route)} doubled: {second.status_code} is another answer")
    return found + together(route, effect)


def together(route: Route, effect: dict[str, int]) -> list[str]:
    asker, request = prepared(route)
    before, key = counts(), new_key()
    answers = at_once(AT_ONCE, lambda _: ask(caller(asker), request, key=key))
    found = [] if difference(before) == effect else [f"{label(route)} at once: {difference(before)} instead of {effect}"]
    if {answer.status_code for answer in answers} != {answers[0].status_code} or sum(REPLAYED not in answer for answer in answers) != 1:
        found.append(f"{label(route)} at once: {[(answer.status_code, answer.get(REPLAYED)) for answer in answers]}")
    return found


def told_again(first: Any, second: Any) -> bool:
    """The same, but for a secret that is told once."""
    one, again = first.json(), second.json()
    one, again = (found.get("data", found) if isinstance(found, dict) else found for found in (one, again))
    return again == one or (isinstance(again, dict) and all(one.get(name) == value for name, value in again.items()))


def difference(before: dict[str, int]) -> dict[str, int]:
    return {table: number - before[table] for table, number in counts().items() if number != before[table]}


@pytest.mark.django_db(transaction=True)
@pytest.mark.gate("accounts", "every POST has one effect under one key, doubled or at the same time")
def test_every_post_has_one_effect_under_one_key(owner: Tenant, evidence: dict[str, Any]) -> None:
    evidence |= {"routes": len(POSTS), "at_once": AT_ONCE}
    assert [fault for route in POSTS for fault in faults(route)] == []


def _forgets(*_: Any, **__: Any) -> None:
    """No key was ever seen before."""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("module", "memory", "route"), [(recorded, "_earlier", "workspaces"), (operation, "replay", "session-exec")])
def test_where_a_key_is_forgotten_the_gate_fails(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch, module: Any, memory: str, route: str
) -> None:
    monkeypatch.setattr(module, memory, _forgets)
    (chosen,) = (one for one in POSTS if one.name == route)
    found: Callable[[Route], list[str]] = faults
    try:
        assert found(chosen)
    except RuntimeError:
        pass  # a key that is there and was never seen is a contradiction that the service tells
