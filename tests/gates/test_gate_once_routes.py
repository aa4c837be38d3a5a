"""Gate once: a request under an Idempotency-Key that comes twice, or from many callers at the same time, has one effect."""

from typing import Any

import pytest
from django.apps import apps

from sessions_app.models import Operation, Session
from sessions_app.services import operation as operations
from tests.integration.api.routes import PUBLIC, Route, label, routes
from tests.support.api import Caller, caller, new_key
from tests.support.fixtures import api, doorbells, heard_of, owner
from tests.support.fleet import Tenant, session_row
from tests.support.threads import at_once

__all__ = ["api", "doorbells", "heard_of", "owner"]
pytestmark = pytest.mark.usefixtures("heard_of")

#: A token that was revoked cannot ask again; who signs in has no account yet, so no key of its own.
KEYED = [route for route in routes() if route.method in ("POST", "DELETE", "PATCH") and route.name not in {*PUBLIC, "token-revoke"}]
CALLERS = 4
OURS = frozenset({"sessions_app", "checkpoints_app", "workers"})


def _rows() -> dict[str, int]:
    return {model._meta.label: model._default_manager.count() for model in apps.get_models() if model._meta.app_label in OURS}


def ask_twice(api: Caller, owner: Tenant, route: Route) -> bool:
    """Whether the request was taken; the second time nothing more is there, and the answer is the first one's."""
    session, key = session_row(owner.account, saved=True), new_key()
    path = route.path(session=session.id, operation="op_" + "0" * 24)
    first = api(route.method, path, route.body, key=key)
    after = _rows()
    second = api(route.method, path, route.body, key=key)
    assert _rows() == after, label(route)
    assert second.status_code == first.status_code, (label(route), first.content, second.content)
    return bool(first.status_code < 300)


@pytest.mark.gate("once", "A mutation that comes twice under one Idempotency-Key, on any route, has one effect and one answer")
def test_the_second_of_two_equal_requests_changes_nothing(api: Caller, owner: Tenant, evidence: dict[str, Any]) -> None:
    taken = [route for route in KEYED if ask_twice(api, owner, route)]
    assert len(taken) >= 10
    evidence |= {"routes": len(KEYED), "taken": [label(route) for route in taken]}


def test_gate_once_fails_where_a_key_is_not_looked_at(api: Caller, owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "once", lambda account, asked, do: (do(operations.Asked()), False))
    with pytest.raises(AssertionError):
        ask_twice(api, owner, next(route for route in KEYED if route.name == "sessions"))


@pytest.mark.gate("once", "Callers at the same time under one Idempotency-Key have one effect, as an operation and as a record")
@pytest.mark.django_db(transaction=True)
def test_of_callers_at_the_same_time_one_has_the_effect(owner: Tenant, evidence: dict[str, Any]) -> None:
    for path, body in (("/api/sessions", {"Image": "tiny"}), ("/api/v2/sessions", {"image": "tiny"})):
        key, before = new_key(), Session.objects.count()
        answers = at_once(CALLERS, lambda _, path=path, body=body, key=key: caller(owner)("POST", path, body, key=key))  # type: ignore[misc]
        assert Session.objects.count() == before + 1, path
        assert len({answer.status_code for answer in answers}) == 1, [answer.content for answer in answers]
        assert sum("KS-Operation-Replayed" not in answer for answer in answers) == 1, path
    assert Operation.objects.count() == 1
    evidence |= {"callers": CALLERS, "sessions": Session.objects.count(), "operations": Operation.objects.count()}
