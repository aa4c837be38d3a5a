"""Which requests are the same call."""

import json
from typing import Any

import pytest

from gateway_app.calls.fingerprint import Fingerprint, fingerprint

BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 100,
    "stream": True,
    "metadata": {"user_id": "one"},
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}],
}
HEADERS = {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b", "authorization": "Bearer x", "x-stainless-retry-count": "0"}


def of(body: dict[str, Any] = BODY, text: str | None = None, **changes: Any) -> Fingerprint:
    raw = (text or json.dumps(body)).encode()
    asked = {"provider": "anthropic", "method": "POST", "path": "/v1/messages", "headers": HEADERS, **changes}
    return fingerprint(**asked, body=raw, parsed=json.loads(raw) if text is None or text.startswith("{") else None)


def test_the_same_bytes_are_the_same_call() -> None:
    assert of() == of()


def test_the_order_of_keys_changes_only_the_bytes() -> None:
    turned = of(dict(reversed(BODY.items())))
    assert (turned.exact != of().exact, turned.canonical) == (True, of().canonical)


@pytest.mark.parametrize("change", [{"stream": False}, {"stream": None}, {"stream_options": {"include_usage": True}}])
def test_how_an_answer_is_transported_is_not_in_the_canonical_key(change: dict[str, Any]) -> None:
    assert of({**BODY, **change}).canonical == of().canonical


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"user_id": "another"}},
        {"client_metadata": {"turn": 1}},
        {"prompt_cache_key": "k"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    ],
)
def test_what_a_new_process_puts_in_anew_is_in_the_canonical_key_and_not_in_the_loose_one(change: dict[str, Any]) -> None:
    changed = of({**BODY, **change})
    assert (changed.canonical != of().canonical, changed.loose) == (True, of().loose)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"seed": 1},
        {"previous_response_id": "resp_0"},
        {"system": "Be brief."},
        {"reasoning": {"effort": "high"}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Ho"}]}]},
        {"metadata": {"user_id": "one", "of": "mine"}},
    ],
)
def test_what_decides_the_answer_is_in_every_key(change: dict[str, Any]) -> None:
    changed = of({**BODY, **change})
    assert len({changed.exact, changed.canonical, changed.loose} & {of().exact, of().canonical, of().loose}) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "openai"},
        {"path": "/v1/messages?beta=true"},
        {"method": "PUT"},
        {"headers": {**HEADERS, "anthropic-version": "2026-10-21"}},
        {"headers": {**HEADERS, "anthropic-beta": "a"}},
    ],
)
def test_where_and_in_which_version_it_is_asked_is_in_every_key(change: dict[str, Any]) -> None:
    changed = of(**change)
    assert changed.exact != of().exact
    assert changed.loose != of().loose


@pytest.mark.parametrize(
    "headers",
    [{**HEADERS, "x-stainless-retry-count": "1"}, {**HEADERS, "authorization": "Bearer y"}, {**HEADERS, "anthropic-beta": "b, a"}],
)
def test_who_asks_and_how_often_is_in_no_key(headers: dict[str, str]) -> None:
    assert of(headers=headers) == of()


def test_a_body_that_is_no_object_has_its_bytes_alone() -> None:
    one = of(text="not json")
    assert one.exact == one.canonical == one.loose
