"""Gate hostile: every route beside hostile bodies, ids and queries: a typed refusal in the route's shape, no 500, and nothing made.

Which routes, fields and parameters there are is read from the URL configuration and the OpenAPI description: a new one is in it by itself.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.apps import apps

from sessions_app.api import body
from sessions_app.api.envelope import Shape
from tests.integration.api.routes import Route, label, routes
from tests.support.api import Caller, close_streams, error_of
from tests.support.fixtures import api, doorbells, heard_of, owner
from tests.support.fleet import Tenant, session_row

__all__ = ["api", "doorbells", "heard_of", "owner"]
pytestmark = pytest.mark.usefixtures("heard_of")

ROUTES = list(routes())
SESSION_ROUTES = [route for route in ROUTES if "<str:session_id>" in route.pattern]
WRITING = [route for route in ROUTES if route.method != "GET"]
#: Routes of the service itself, or of a guest: they may say that what they need is away.
AWAY = frozenset({503, 504})
MALFORMED = [
    b"{", b"\xff\xfe{}", b"[]", b'"text"', b"null", b'{"\\ud800": 1}', b'{"a": NaN}', b'{"a": 1, "a": 2}', b'{"no_such_field": 1}',
    b'{"\\u0000": "\\u0000"}', b"[" * 60_000, b'{"a": ' + b"9" * 5000 + b"}", b'{"a": "' + b"x" * (300 * 1024) + b'"}', b"{} trailing",
]  # fmt: skip
WRONG: list[Any] = [None, 1e300, "x" * 5000 + "\x00", [], {"$ne": 1}]
IDS = ["%00", "a" * 600, quote("\U0001f4a5" * 4)]
VALUES = ["9" * 30, "\x00\u202e\U0001f4a5", "a" * 3000]


def _rows() -> dict[str, int]:
    """Of every table of ours."""
    return {model._meta.label: model._default_manager.count() for model in apps.get_models() if model._meta.app_label in OURS}


def _judge(route: Route, answer: Any, sent: object) -> None:
    told = (
        label(route),
        sent if len(str(sent)) < 200 else str(sent)[:200],
        answer.status_code,
        b"" if answer.streaming else answer.content[:300],
    )
    assert answer.status_code < 500 or answer.status_code in AWAY, told
    close_streams()  # they may hold a place until then
    if answer.status_code >= 400:
        error = error_of(answer)
        assert error["code"].startswith("ks_"), told
        assert error["code"] != "ks_unavailable", told  # no request keeps the database from the next one
        assert b"Traceback" not in answer.content, told
        assert ("schema_version" in answer.json()) == (route.shape == Shape.V2 or error["code"] == "ks_route_not_served"), told


OURS = frozenset({"sessions_app", "checkpoints_app", "workers"})
OPERATION = "op_" + "0" * 24


def refuse_malformed(api: Caller, owner: Tenant) -> int:
    """Every malformed body to every route that takes one; how many requests that were."""
    session = session_row(owner.account, saved=True)
    before = _rows()
    for route in WRITING:
        for sent in MALFORMED:
            answer = api(route.method, route.path(session=session.id, operation=OPERATION), sent)
            _judge(route, answer, sent[:60])
            assert answer.status_code >= 400, (label(route), sent[:60])
    assert _rows() == before
    return len(WRITING) * len(MALFORMED)


@pytest.mark.gate("hostile", "Malformed, huge and hostile bodies are refused by name on every route, and nothing is made of them")
def test_malformed_bodies_make_nothing(api: Caller, owner: Tenant, evidence: dict[str, Any]) -> None:
    evidence |= {"routes": len(WRITING), "refused": refuse_malformed(api, owner)}


def test_gate_hostile_fails_where_a_body_is_read_less_strictly(api: Caller, owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "read", lambda request: json.loads(request._request.read() or b"{}"))
    with pytest.raises(AssertionError):
        refuse_malformed(api, owner)


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    from drf_spectacular.generators import SchemaGenerator

    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return found


def _described(description: dict[str, Any], route: Route) -> dict[str, Any]:
    found: dict[str, Any] = description["paths"][route.described_as][route.method.lower()]
    return found


def _fields(description: dict[str, Any], route: Route) -> Iterator[str]:
    content = _described(description, route).get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    yield from description["components"]["schemas"].get(name, {}).get("properties", {})


def test_a_field_of_a_wrong_kind_is_no_fault_of_ours(api: Caller, owner: Tenant, description: dict[str, Any]) -> None:
    """The last route revokes the token, if its body should be taken; a refusal for that alone would show nothing of the others."""
    asked = 0
    for route in sorted(WRITING, key=lambda one: one.name == "token-revoke"):
        path = route.path(session=session_row(owner.account, saved=True).id, operation=OPERATION)
        good = route.body if isinstance(route.body, dict) else {}
        for field in _fields(description, route):
            for value in WRONG:
                _judge(route, api(route.method, path, json.dumps({**good, field: value}).encode()), {field: value})
                asked += 1
    assert asked > 100


def test_a_strange_id_names_nothing(api: Caller, owner: Tenant) -> None:
    before = _rows()
    for route in ROUTES:
        for text in IDS if route.names_a_record else ():
            answer = api(route.method, route.path(session=text, operation=text), route.body)
            _judge(route, answer, text)
            assert answer.status_code >= 400, (label(route), text)
    assert _rows() == before


def test_a_strange_query_is_no_fault_of_ours(api: Caller, owner: Tenant, description: dict[str, Any]) -> None:
    """Of what may be changed each request has a session of its own; the route that revokes the token comes last."""
    looked_at = session_row(owner.account, saved=True)
    for route in sorted(ROUTES, key=lambda one: one.name == "token-revoke"):
        names = [one["name"] for one in _described(description, route).get("parameters", []) if one["in"] == "query"]
        for name in [*names, "no_such"]:
            for value in VALUES if route.method == "GET" else VALUES[1:2]:
                session = looked_at if route.method == "GET" else session_row(owner.account, saved=True)
                path = route.path(session=session.id, operation=OPERATION).partition("?")[0]
                answer = api(route.method, f"{path}?{urlencode({name: value})}", route.body)
                _judge(route, answer, {name: value})
                assert "\0" not in value or answer.status_code >= 400, (label(route), name)


def test_a_prefix_of_two_sessions_picks_none_on_any_route(api: Caller, owner: Tenant) -> None:
    ids = {session_row(owner.account, id="abcd" + end * 28).id for end in "12"}
    before = _rows()
    for route in SESSION_ROUTES:
        refused = api(route.method, route.path(session="abcd", operation=OPERATION), route.body)
        assert (refused.status_code, set(error_of(refused).get("candidates", []))) == (409, ids), (label(route), refused.content)
    assert _rows() == before


def test_any_form_of_an_id_reads_the_same_session(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    for route in SESSION_ROUTES:
        if route.method == "GET":
            answers = {
                api("GET", route.path(session=form, operation=OPERATION)).status_code
                for form in (session.id, session.record_id, session.short_id, session.id[:6], session.id.upper())
            }
            assert len(answers) == 1, label(route)
            assert answers != {404} or "checkpoint_id" in route.pattern, label(route)
