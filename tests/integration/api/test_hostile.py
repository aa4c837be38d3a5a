"""Whatever is sent: a typed refusal, never a 500, never a trace, and never an effect that was not asked for."""

import json
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.db import OperationalError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions_app.models import Operation
from sessions_app.services import session as sessions
from tests.integration.api.routes import Route, label, routes
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, session_row

POSTS = [route for route in routes() if route.method == "POST" and route.name != "token-revoke"]
QUIET = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = st.sampled_from(
    ["Image", "Budget", "Name", "Memory", "Cpus", "Stop", "Reason", "Checkpoint", "Cmd", "Argv", "Timeout", "reason", "checkpoint_id"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4), max_leaves=12
)
BODIES = st.dictionaries(NAMES | st.text(max_size=10), VALUES, max_size=5) | VALUES


def _typed(response: Any) -> bool:
    """A refusal of the client's, or something that was in order by chance."""
    if response.status_code in (200, 201, 202):
        return True
    assert 400 <= response.status_code < 500, (response.status_code, response.content[:500])
    assert b"Traceback" not in response.content
    return error_of(response)["code"].startswith("ks_")


@pytest.mark.parametrize("route", POSTS, ids=label)
@QUIET
@given(body=BODIES)
def test_any_json_gets_a_typed_answer(api: Caller, owner: Tenant, route: Route, body: Any) -> None:
    session = session_row(owner.account, saved=True)
    assert _typed(api(route.method, route.path(session=session.id, operation="op_x"), json.dumps(body).encode()))


@pytest.mark.parametrize("route", POSTS, ids=label)
@QUIET
@given(body=st.binary(min_size=1, max_size=400))
def test_any_bytes_get_a_typed_answer(api: Caller, owner: Tenant, route: Route, body: bytes) -> None:
    session = session_row(owner.account, saved=True)
    assert _typed(api(route.method, route.path(session=session.id, operation="op_x"), body))


@QUIET
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="/?#"), min_size=1, max_size=60))
def test_any_id_gets_a_typed_answer(api: Caller, text: str) -> None:
    for path in ("/api/operations/", "/api/v2/sessions/"):
        answer = api("GET", path + quote(text, safe=""))
        assert answer.status_code == 404
        assert _typed(answer)


@QUIET
@given(text=st.text(max_size=80))
def test_any_cursor_gets_a_typed_answer(api: Caller, text: str) -> None:
    assert _typed(api("GET", f"/api/v2/sessions?{urlencode({'cursor': text.encode('utf-8', 'surrogatepass')})}"))


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nothing",
        b"\xff\xfe{}",
        b'{"Image": "\\ud800"}',
        b'{"\\ud800": 1}',
        b'{"Budget": NaN}',
        b'{"Budget": 1e999}',
        b'{"Budget": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"Image": "tiny"} trailing',
    ],
    ids=lambda body: repr(body[:20]),
)
def test_a_malformed_body_is_refused(api: Caller, body: bytes) -> None:
    refused = api("POST", "/api/sessions", body)
    assert (refused.status_code, refused.json()["error"]) == (400, "ks_invalid")
    assert not Operation.objects.exists()


def test_a_huge_body_is_refused_unread(api: Caller) -> None:
    refused = api("POST", "/api/sessions", b'{"Image": "' + b"x" * (1 << 20) + b'"}')
    assert (refused.status_code, refused.json()["error"]) == (413, "ks_too_large")


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml", ""]
)
def test_a_body_of_another_type_is_refused(api: Caller, content_type: str) -> None:
    headers = {"Authorization": f"Bearer {api.plain}"}
    refused = api.client.generic("POST", "/api/sessions", b"Image=tiny", content_type=content_type, headers=headers)
    assert (refused.status_code, refused.json()["error"]) == (415, "ks_unsupported_media_type")


def test_a_charset_beside_json_is_taken_and_an_empty_form_is_an_empty_body(api: Caller, owner: Tenant) -> None:
    headers = {"Authorization": f"Bearer {api.plain}", "Prefer": "respond-async"}
    send = api.client.generic
    assert (
        send("POST", "/api/sessions", b'{"Image":"tiny"}', content_type="application/json; charset=utf-8", headers=headers).status_code
        == 202
    )
    path = f"/api/sessions/{session_row(owner.account).id}/checkpoint"
    assert send("POST", path, b"", content_type="application/x-www-form-urlencoded", headers=headers).status_code == 202


@pytest.mark.parametrize("route", list(routes()), ids=label)
def test_a_method_that_a_route_does_not_take_is_told_with_those_that_it_takes(api: Caller, route: Route) -> None:
    taken = {other.method for other in routes() if other.pattern == route.pattern}
    for method in {"PUT", "PATCH", "OPTIONS"} - taken:
        refused = api(method, route.path(session="0" * 32, operation="op_x"))
        assert (refused.status_code, error_of(refused)["code"]) == (405, "ks_method_not_allowed")
        assert route.method in refused["Allow"]


@pytest.mark.parametrize(
    "path", ["/api/nothing", "/api/v2/nothing", "/api/v2/", "/api/sessions/abcd/nothing", "/api/whoami/", "/api/sessions/"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PROPFIND"])
def test_a_route_that_is_not_served_is_told_apart_from_a_missing_record(owner: Tenant, path: str, method: str) -> None:
    missing = Caller(None)(method, path)
    assert (missing.status_code, error_of(missing)["code"]) == (404, "ks_route_not_served")


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "*/*", "image/png;q=0.1"])
def test_the_answer_is_json_whatever_is_asked_for(api: Caller, accept: str) -> None:
    answer = api("GET", "/api/whoami?format=xml", Accept=accept)
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")


def test_a_fault_inside_is_typed_and_shows_nothing_of_itself(api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(sessions, "create", broken)
    failed = api("POST", "/api/sessions", {"Image": "tiny"})
    assert (failed.status_code, failed.json()["error"]) == (500, "ks_internal")
    assert b"secret detail" not in failed.content
    assert failed["X-Request-Id"]


def test_a_database_that_does_not_answer_is_told_as_unknown_outcome(api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise OperationalError("server closed the connection")

    monkeypatch.setattr(sessions, "create", gone)
    failed = api("POST", "/api/sessions", {"Image": "tiny"})
    assert (failed.status_code, failed.json()["error"], failed["Retry-After"]) == (503, "ks_unavailable", "2")
    assert "not known" in failed.json()["message"]
