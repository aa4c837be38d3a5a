"""The shapes of answers, keys and preferences. No database."""

import tomllib
from pathlib import Path

import pytest
from django.conf import settings
from django.test import RequestFactory
from rest_framework.request import Request

from sessions_app import errors
from sessions_app.api import idempotency
from sessions_app.api.envelope import Shape, failure, success
from sessions_app.api.schema import MEANINGS
from sessions_app.errors import Invalid, ServiceError
from sessions_app.version import BUILD

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ServiceError)]


def _request(**headers: str) -> Request:
    return Request(RequestFactory().post("/api/sessions?b=2&a=1", headers=headers))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_has_its_word_text_and_facts_in_both_shapes(kind: type[ServiceError]) -> None:
    error = kind("What happened.", next_action="What to do.", facts={"operation_id": "op_1"}).as_dict()
    told = {"message": "What happened.", "next_action": "What to do.", "operation_id": "op_1"}
    assert failure(Shape.PLAIN, error) == {"error": kind.code, **told}
    assert failure(Shape.V2, error) == {"schema_version": 2, "error": {"code": kind.code, "type": kind.code, **told}}
    assert kind.code.startswith("ks_")


def test_a_fact_never_hides_the_error_itself() -> None:
    error = ServiceError("said", facts={"message": "other", "code": "other", "type": "other"}).as_dict()
    assert (error["message"], error["code"], error["type"]) == ("said", "ks_internal", "ks_internal")


def test_every_status_that_a_refusal_has_is_described() -> None:
    assert {kind.status for kind in KINDS} - set(MEANINGS) <= {405}


def test_success_is_bare_on_plain_routes_and_wrapped_on_v2() -> None:
    assert success(Shape.PLAIN, {"id": "x"}) == {"id": "x"}
    assert success(Shape.V2, {"id": "x"}) == {"schema_version": 2, "data": {"id": "x"}}


@pytest.mark.parametrize("key", ["ksop_" + "0" * 32, "12345678", "!" * 100, "a:b/c-d_e"])
def test_a_key_of_visible_characters_is_taken(key: str) -> None:
    assert idempotency.key(_request(**{"Idempotency-Key": key})) == key


@pytest.mark.parametrize("key", ["", "1234567", "x" * 101, "a b c d e f", "tab\tinside", "ünïcödéé"])
def test_another_key_is_refused(key: str) -> None:
    with pytest.raises(Invalid, match="Idempotency-Key"):
        idempotency.key(_request(**{"Idempotency-Key": key}))


def test_no_key_is_no_key() -> None:
    assert idempotency.key(_request()) is None


def test_the_query_and_the_body_both_make_a_request_what_it_is() -> None:
    one, other = idempotency.asked(_request(), {"x": 1}), idempotency.asked(_request(), {"x": 2})
    bare = idempotency.asked(Request(RequestFactory().post("/api/sessions")), {"x": 1})
    assert len({one.body_digest, other.body_digest, bare.body_digest}) == 3
    assert idempotency.asked(Request(RequestFactory().post("/api/sessions?a=1&b=2")), {"x": 1}).body_digest == one.body_digest


def test_the_build_is_the_projects_version() -> None:
    project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text())
    assert project["project"]["version"] == BUILD
