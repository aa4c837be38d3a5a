"""Bodies: bounded, strict, and judged before anything is done. No database."""

import json
from typing import Any

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.request import Request

from sessions_app.api import body
from sessions_app.api.execute import Command
from sessions_app.api.session import Save, Start
from sessions_app.errors import Invalid, NotJson, TooLarge
from sessions_app.services.bounds import BODY_BYTES


def _request(content: bytes, content_type: str = "application/json", **environ: Any) -> Request:
    return Request(RequestFactory().generic("POST", "/api/sessions", content, content_type=content_type, **environ))


def test_no_body_is_an_empty_one() -> None:
    assert body.read(_request(b"")) == {}
    assert body.read(_request(b" \n", content_type="text/plain")) == {}


def test_a_body_of_the_largest_size_is_read_and_one_byte_more_is_not() -> None:
    content = json.dumps("x" * (BODY_BYTES - 2)).encode()
    assert body.read(_request(content)) == "x" * (BODY_BYTES - 2)
    with pytest.raises(TooLarge):
        body.read(_request(content + b" "))


def test_a_body_without_a_length_is_not_overlooked() -> None:
    """As a chunked request arrives at an ASGI server: the stream has it, and no header tells how much."""
    from io import BytesIO

    from django.core.handlers.asgi import ASGIRequest

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": [(b"content-type", b"application/json")]}
    request = Request(ASGIRequest(scope, BytesIO(b'{"Budget": 5}')))
    assert body.read(request) == {"Budget": 5}


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert body.read(_request(json.dumps(value).encode())) == value


@given(st.binary(max_size=300))
def test_bytes_are_read_or_refused_and_nothing_else(content: bytes) -> None:
    try:
        body.read(_request(content))
    except Invalid:
        pass


def test_another_type_is_refused() -> None:
    with pytest.raises(NotJson):
        body.read(_request(b"a=1", content_type="application/x-www-form-urlencoded"))


@given(name=st.text(min_size=1).filter(lambda name: name not in Start().fields))
def test_an_unknown_field_is_always_refused(name: str) -> None:
    with pytest.raises(Invalid, match="is not a field of this request"):
        body.checked(Start, {"Image": "tiny", name: 1})


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        body.checked(Start, {"Image": 1, "Budget": "x", "Cpus": None})
    assert set(refused.value.facts["fields"]) == {"Image", "Budget", "Cpus"}
    assert refused.value.message.endswith("Nothing was done.")


@pytest.mark.parametrize("value", ["true", "no", 1, 0, None, "", []])
def test_only_a_boolean_is_a_boolean(value: Any) -> None:
    with pytest.raises(Invalid, match="Stop"):
        body.checked(Save, {"Stop": value})


def test_a_field_left_out_stays_absent() -> None:
    assert body.checked(Start, {}) == {}
    assert body.checked(Save, {}) == {"Stop": False, "Reason": ""}


def test_blanks_of_a_command_are_its_own() -> None:
    assert body.checked(Command, {"Cmd": "  echo  "})["Cmd"] == "  echo  "
    assert body.checked(Command, {"Argv": [" ", ""]})["Argv"] == [" ", ""]
