"""Requests drawn from the OpenAPI description: what is answered is what is described, on every route."""

import uuid
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from sessions_app.services import token as tokens
from tests.integration.api.routes import routes
from tests.support.fleet import Tenant, session_row

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
#: What the fleet of a test cannot do: no machine runs, so no guest answers.
AWAY = frozenset({503, 504})
ARCHIVES = ["application/gzip", "application/x-tar", "application/zip"]
DRAWN = settings(
    max_examples=3,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def _read_and_closed(environ: Any, start_response: Any) -> list[bytes]:
    """The site's application, with each answer read to its end and closed, as a server does: some hold a place until then."""
    response = _site()(environ, start_response)
    try:
        return [b"".join(response)]
    finally:
        response.close()


@cache
def _site() -> Any:
    return get_wsgi_application()


@pytest.fixture
def described(owner: Tenant) -> Iterator[Any]:
    """The description, with the application behind it; like Django's own test client, it keeps the test's connection between requests."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    schemathesis.serializer.alias(ARCHIVES, "application/octet-stream")
    yield schemathesis.openapi.from_wsgi("/api/schema", _read_and_closed)
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def _call(case: Any, owner: Tenant, plain: str) -> None:
    """A session's id is that of one that is there, so that more than its absence is asked about."""
    if "session_id" in (case.path_parameters or {}):
        case.path_parameters["session_id"] = session_row(owner.account, saved=True).id
    headers = {"Authorization": f"Bearer {plain}", "Prefer": "respond-async", "X-KS-Protocol": "2", "Idempotency-Key": uuid.uuid4().hex}
    response = case.call(headers=headers)
    if b"ks_route_not_served" in response.content:
        return  # what was drawn for an id made it another path: a line break, or nothing
    told = (case.method, case.path, response.status_code, response.content[:300])
    assert response.status_code < 500 or response.status_code in AWAY, told
    case.validate_response(response, checks=CHECKS)


def _faults(operation: Any, owner: Tenant) -> str:
    """What was answered otherwise than described; empty for none. With a token of its own: one of them revokes what it is asked with."""
    _, plain = tokens.issue(owner.account, "for one operation")

    @DRAWN
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        _call(case, owner, plain)

    try:
        ask()
    except (Exception, BaseExceptionGroup) as error:  # told together with those of the other operations
        return f"{operation.label}: {error}"
    return ""


@pytest.mark.usefixtures("heard_of")
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators")
def test_every_answer_is_as_described(described: Any, owner: Tenant) -> None:
    operations = [found.ok() for found in described.get_all_operations()]
    faults = [fault for operation in operations if (fault := _faults(operation, owner))]
    assert not faults, "\n\n".join(faults)
    assert {operation.label for operation in operations} == {f"{route.method} {route.described_as}" for route in routes()}
