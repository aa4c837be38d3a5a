"""Capabilities, the OpenAPI description, the page for people."""

from typing import Any

import pytest
from django.core.management import call_command

from checkpoints_app.states import VOCABULARIES as CHECKPOINT_WORDS
from sessions_app.services import bounds
from sessions_app.states import VOCABULARIES
from tests.integration.api.routes import PUBLIC, routes
from tests.support.api import Caller
from tests.support.fleet import Tenant

#: Served so that they refuse by name what this version does not have.
REFUSED = frozenset({"session-bindings"})


def test_the_capability_document_has_the_contracts_fields(api: Caller) -> None:
    data = api("GET", "/api/capabilities").json()["data"]
    assert set(data) == {"registry_version", "build", "fetched_at", "price_book", "capabilities", "limits", "protocol", "states"}
    assert data["protocol"] == {"current": 2, "minimum_client": 2, "header": "X-KS-Protocol"}
    assert data["states"] == {**VOCABULARIES, **CHECKPOINT_WORDS}
    assert "valid" in data["states"]["checkpoint"]
    assert (data["limits"]["page_max"], data["limits"]["exec_bytes_max"]) == (200, bounds.EXEC_BYTES)


def test_rows_say_what_is_there_and_why_the_rest_is_not(api: Caller) -> None:
    rows = api("GET", "/api/capabilities").json()["data"]["capabilities"]
    assert len({row["id"] for row in rows}) == len(rows)
    assert all((row["availability"] == "available") == (row["unavailable_reason"] is None) for row in rows)
    assert {row["id"]: row["availability"] for row in rows}["session.meter"] == "degraded"
    assert {"operations.idempotent", "session.list", "checkpoints.save"} <= {
        row["id"] for row in rows if row["availability"] == "available"
    }


def test_the_public_copy_needs_no_token_and_is_the_same(api: Caller) -> None:
    mine, public = (one("GET", path).json()["data"] for one, path in ((api, "/api/capabilities"), (Caller(None), "/api/v2/capabilities")))
    assert {**mine, "fetched_at": None} == {**public, "fetched_at": None}


def test_healthz_needs_no_token(owner: Tenant) -> None:
    assert Caller(None)("GET", "/healthz").status_code == 200


def test_the_openapi_description_is_valid_and_without_warnings(tmp_path: Any) -> None:
    call_command("spectacular", fail_on_warn=True, validate=True, file=str(tmp_path / "schema.yml"))


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    from drf_spectacular.generators import SchemaGenerator

    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return found


def test_every_route_is_described_with_its_answers_and_errors(description: dict[str, Any]) -> None:
    for route in routes():
        described = description["paths"][route.described_as][route.method.lower()]
        assert described["summary"]
        assert described["tags"]
        assert {"101", "200", "201"} & set(described["responses"]) or route.name in REFUSED
        if route.name not in PUBLIC:
            assert "401" in described["responses"], route
            assert described["security"] == [{"bearer": []}]


def test_every_mutation_describes_its_idempotency_key(description: dict[str, Any]) -> None:
    for route in routes():
        if route.method != "GET" and route.name != "session-file-content":  # the same bytes written again are the same file
            described = description["paths"][route.described_as][route.method.lower()]
            assert "Idempotency-Key" in {parameter["name"] for parameter in described["parameters"]}


def test_an_answer_has_the_fields_that_its_description_has(api: Caller, description: dict[str, Any]) -> None:
    components = description["components"]["schemas"]
    operation = api("POST", "/api/sessions", {"Image": "tiny"}).json()["data"]
    assert set(operation) == set(components["OperationRow"]["properties"])
    row = api("GET", f"/api/v2/sessions/{operation['session_id']}").json()["data"]
    assert set(row) == set(components["SessionRow"]["properties"])


@pytest.mark.parametrize("path", ["/api/schema", "/api/docs"])
def test_people_can_read_the_description(owner: Tenant, path: str) -> None:
    assert Caller(None)("GET", path).status_code == 200
