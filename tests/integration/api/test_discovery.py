"""Capabilities, the OpenAPI description, the page for people."""

from typing import Any

import pytest
from django.core.management import call_command

from checkpoints_app.states import VOCABULARIES as CHECKPOINT_WORDS
from sessions_app.services import bounds
from sessions_app.services.capability_rows import ROWS
from sessions_app.services.steps import CapabilityRow
from sessions_app.states import VOCABULARIES
from tests.integration.api.routes import PUBLIC, routes
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, session_row
from workers.models import Host


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
    assert {"operations.idempotent", "session.list", "checkpoints.save"} <= {
        row["id"] for row in rows if row["availability"] == "available"
    }


def test_every_row_that_is_there_names_its_routes_and_every_route_is_in_a_row() -> None:
    served = {route.name for route in routes()}
    named = {name for row in ROWS for name in row.routes}
    assert named == served
    assert all(row.routes for row in ROWS if row.availability in ("available", "degraded"))


@pytest.mark.parametrize("row", [row for row in ROWS if row.refusal], ids=lambda row: row.id)
def test_what_is_not_there_is_refused_as_its_row_says(api: Caller, owner: Tenant, row: CapabilityRow) -> None:
    assert row.availability == "unavailable"
    assert row.refusal is not None
    method, path, code = row.refusal
    body = {"agent.workspace": {"mode": "agent"}}.get(row.id)
    refused = api(method, path.format(session=session_row(owner.account).id), body)
    assert (400 <= refused.status_code < 500, error_of(refused)["code"]) == (True, code)


def test_an_architecture_that_no_live_host_runs_is_degraded_and_says_so(api: Caller) -> None:
    def row() -> dict[str, Any]:
        rows = api("GET", "/api/capabilities").json()["data"]["capabilities"]
        return next(one for one in rows if one["id"] == "machines.x86_64")

    assert (row()["availability"], row()["unavailable_reason"]) == ("available", None)
    Host.objects.update(draining=True)
    assert row()["availability"] == "degraded"
    assert "x86_64" in row()["unavailable_reason"]


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
        assert {"101", "200", "201"} & set(described["responses"])
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
