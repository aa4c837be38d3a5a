"""Whatever a provider or a program sends: no reader, no unfolding and no key breaks of it, and its work stays bounded."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_app.calls import extend
from gateway_app.calls.fingerprint import Fingerprint, fingerprint
from gateway_app.proxy.request import parsed
from gateway_app.streams.kinds import KINDS
from gateway_app.streams.reader import End, Reader
from gateway_app.streams.sse import Event, Splitter
from tests.unit.gateway import answers

STREAMS = {
    "anthropic": answers.MESSAGE_STREAM,
    "responses": answers.RESPONSE_STREAM,
    "chat": answers.CHAT_STREAM,
    "gemini": answers.GENERATE_STREAM,
}
every = pytest.mark.parametrize("kind", list(KINDS))
quick = settings(max_examples=15, deadline=None)

#: Words that the readers look for, and what no sound answer has in their places.
_NAMES = [
    *("type", "index", "delta", "message", "usage", "content", "content_block", "choices", "finish_reason", "tool_calls", "function"),
    *("candidates", "parts", "response", "item", "text", "output", "arguments", "status", "citations", "input", "messages", "role"),
    *("metadata", "cache_control", "stream", "stream_options", "content_index", "output_index", "partial_json", "thinking"),
]
_WORDS = ["message_start", "content_block_start", "text", "thinking", "tool_use", "text_delta", "output_text", "message", "function_call"]
_TEXTS = st.sampled_from([*_WORDS, "\ud83d", "\x00", "", "0"]) | st.text(max_size=4)
_NUMBERS = st.integers(-2, 3) | st.sampled_from([10**30, -(10**30), float("nan"), float("inf"), 1e308, True])
VALUES = st.recursive(
    st.none() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=16,
)
OBJECTS = st.dictionaries(st.sampled_from(_NAMES), VALUES, max_size=8)


def read(kind: str, stream: bytes) -> Reader:
    reader = KINDS[kind].reader()
    for event in Splitter().feed(stream):
        reader.take(event)
    return reader


def nested(depth: int, opening: str = '{"a":', inner: str = "1", closing: str = "}") -> str:
    return opening * depth + inner + closing * depth


@every
def test_a_stream_that_ends_at_any_byte_before_its_end_is_not_complete(kind: str) -> None:
    stream = STREAMS[kind]
    reader, splitter, ends = KINDS[kind].reader(), Splitter(), list[End]()
    for place in range(len(stream)):
        for event in splitter.feed(stream[place : place + 1]):
            reader.take(event)
        ends.append(reader.end)
    assert ends[-1] == End.COMPLETE
    last = 2 if kind == "gemini" else 1  # a CR ends its line at once, the LF behind it is no news
    assert set(ends[:-last]) == {End.OPEN}


@quick
@given(data=st.binary(max_size=200), places=st.lists(st.integers(0, 200), max_size=5))
def test_any_bytes_split_the_same_wherever_they_are_cut(data: bytes, places: list[int]) -> None:
    whole = [(one.type, one.data) for one in Splitter().feed(data)]
    splitter, bounds = Splitter(), [0, *sorted(min(place, len(data)) for place in places), len(data)]
    found = [one for at, end in pairwise(bounds) for one in splitter.feed(data[at:end])]
    assert [(one.type, one.data) for one in found] == whole
    assert b"".join(one.raw for one in found) + splitter.tail == data


def test_ends_of_lines_of_all_kinds_a_mark_of_byte_order_and_nul_are_taken_as_the_standard_says() -> None:
    mixed = b"\xef\xbb\xbfdata: a\rdata: b\r\ndata: c\n\rdata: \x00\r\r\n"
    assert [one.data for one in Splitter().feed(mixed)] == ["a\nb\nc", "\x00"]


@every
@quick
@given(told=st.lists(OBJECTS, max_size=5))
def test_nothing_that_is_json_breaks_a_reader_or_what_is_made_of_its_answer(kind: str, told: list[dict[str, Any]]) -> None:
    stream = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in told)
    reader = read(kind, stream + STREAMS[kind])
    folded = reader.folded()
    assert (folded is not None) == (reader.end == End.COMPLETE)
    if folded is not None:
        list(KINDS[kind].unfold(folded))


@every
@quick
@given(answer=OBJECTS)
def test_any_whole_answer_can_be_read_and_streamed(kind: str, answer: dict[str, Any]) -> None:
    assert KINDS[kind].read_json(answer).end in End
    assert all(isinstance(piece, bytes) for piece in KINDS[kind].unfold(answer))


@every
@pytest.mark.parametrize("depth", [300, 900, 5000, 100_000])
def test_an_answer_that_is_nested_beyond_reason_breaks_nothing(kind: str, depth: int) -> None:
    deep = [nested(depth), nested(depth, "[", "1", "]"), '{"choices":[{"index":0,"delta":' + nested(depth) + "}]}"]
    stream = b"".join(b"data: %b\n\n" % one.encode() for one in [*deep, *deep])
    assert read(kind, stream).end == End.OPEN
    assert read(kind, stream + STREAMS[kind]).end == End.COMPLETE


def of(body: bytes, value: dict[str, Any] | None) -> Fingerprint:
    return fingerprint(provider="anthropic", method="POST", path="/v1/messages", headers={}, body=body, parsed=value)


@quick
@given(value=OBJECTS)
def test_any_request_has_keys_and_the_same_ones_whatever_the_order_of_its_fields(value: dict[str, Any]) -> None:
    body, turned = (json.dumps(dict(pairs)).encode() for pairs in (value.items(), reversed(value.items())))
    assert of(body, parsed(body)).canonical == of(turned, parsed(turned)).canonical
    assert of(body, parsed(body)).loose == of(turned, parsed(turned)).loose


@pytest.mark.parametrize("depth", [300, 600, 900, 5000, 100_000])
def test_a_request_that_is_nested_beyond_reason_has_its_bytes_for_a_key_at_least(depth: int) -> None:
    body = nested(depth).encode()
    assert of(body, parsed(body)).exact == of(body, None).exact


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"null", b"[]", b'"x"', b"{", b'{"n": ' + b"9" * 5000 + b"}", b"{}\x00"])
def test_a_body_that_is_no_sound_object_is_passed_on_unread(body: bytes) -> None:
    assert parsed(body) is None


@quick
@given(request_=OBJECTS, stored=OBJECTS, blocks=st.lists(VALUES, max_size=4))
def test_no_request_breaks_the_search_for_the_rest_of_an_answer(
    request_: dict[str, Any], stored: dict[str, Any], blocks: list[Any]
) -> None:
    for goes_on, field in ((extend.anthropic, "messages"), (extend.responses, "input")):
        going = {
            **stored,
            field: [*_listed(stored.get(field)), *_listed(request_.get(field)), {"role": "assistant", "content": blocks[:1]}],
        }
        for asked in (request_, stored, going):
            found = goes_on(asked, stored, blocks)
            assert found is None or found.blocks == blocks[found.taken :]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def events(pieces: Iterator[bytes]) -> list[Event]:
    return Splitter().feed(b"".join(pieces))


def test_half_a_character_in_an_answer_is_told_again_as_it_was() -> None:
    for kind, whole in (("anthropic", answers.MESSAGE), ("responses", answers.RESPONSE), ("chat", answers.CHAT)):
        halved = {**whole, "model": "half \ud83d"}
        found = events(KINDS[kind].unfold(halved))
        assert any("\\ud83d" in one.data for one in found)
