"""What is read of an answer as it passes: whether it is complete, what it used, and the same answer without streaming."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from gateway_app.streams import anthropic, chat, gemini, kinds, responses
from gateway_app.streams.reader import End, Reader, Seen
from gateway_app.streams.sse import Event, Splitter
from gateway_app.usage import Tokens
from tests.unit.gateway import answers

KINDS: dict[str, tuple[Callable[[], Reader], bytes, dict[str, Any], Callable[[dict[str, Any]], Seen]]] = {
    "anthropic": (anthropic.MessagesReader, answers.MESSAGE_STREAM, answers.MESSAGE, anthropic.read_json),
    "responses": (responses.ResponsesReader, answers.RESPONSE_STREAM, answers.RESPONSE, responses.read_json),
    "chat": (chat.ChatReader, answers.CHAT_STREAM, answers.CHAT, chat.read_json),
    "gemini": (gemini.GenerateReader, answers.GENERATE_STREAM, answers.GENERATED, gemini.read_json),
}
TOKENS = {
    "anthropic": Tokens(10, 42, 500, 0),
    "responses": Tokens(10, 7, 20, None),
    "chat": Tokens(10, 7, 20, None),
    "gemini": Tokens(12, 8, None, None),
}
every = pytest.mark.parametrize("kind", list(KINDS))


def events(stream: bytes) -> list[Event]:
    return Splitter().feed(stream)


def read(reader: Reader, stream: bytes) -> Reader:
    for event in events(stream):
        reader.take(event)
    return reader


@every
def test_a_stream_that_ended_as_its_protocol_ends_is_complete_with_its_usage(kind: str) -> None:
    new, stream, _, _ = KINDS[kind]
    seen = read(new(), stream).seen
    assert (seen.end, seen.tokens) == (End.COMPLETE, TOKENS[kind])


@every
def test_a_stream_folds_into_the_answer_that_the_provider_gives_whole(kind: str) -> None:
    new, stream, whole, _ = KINDS[kind]
    assert read(new(), stream).folded() == whole


@every
def test_a_whole_answer_reads_as_its_stream_does(kind: str) -> None:
    new, stream, whole, read_json = KINDS[kind]
    assert read_json(whole) == read(new(), stream).seen


@every
def test_a_stream_cut_before_its_last_event_is_not_complete_and_folds_into_nothing(kind: str) -> None:
    new, stream, _, _ = KINDS[kind]
    found = events(stream)
    for count in range(len(found)):
        reader = new()
        for event in found[:count]:
            reader.take(event)
        assert (reader.seen.end, reader.folded()) == (End.OPEN, None)


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ("responses", {"type": "error", "code": "server_error"}),
        ("responses", {"type": "response.failed", "response": {"status": "failed"}}),
        ("chat", {"error": {"message": "overloaded"}}),
        ("gemini", {"error": {"code": 503}}),
    ],
)
def test_an_error_within_a_stream_is_an_error_and_never_complete(kind: str, event: dict[str, Any]) -> None:
    new, stream, _, _ = KINDS[kind]
    reader = new()
    for one in events(stream)[:3]:
        reader.take(one)
    reader.take(Event("", json.dumps(event), b""))
    assert (reader.seen.end, reader.folded()) == (End.ERROR, None)


def test_a_later_figure_replaces_an_earlier_one_and_a_zero_does_so_too() -> None:
    assert Tokens(10, 1, 5, 7).overlaid(Tokens(None, 42, None, 0)) == Tokens(10, 42, 5, 0)


@pytest.mark.parametrize("told", [None, "12", -1, 1.5, True, 10**15, {"a": 1}])
def test_what_is_no_count_is_unknown_and_not_zero(told: Any) -> None:
    assert anthropic.tokens({"input_tokens": told, "output_tokens": 3}).total is None


def test_blocks_that_are_whole_are_known_before_the_end() -> None:
    reader = anthropic.MessagesReader()
    for event in events(answers.MESSAGE_STREAM)[:8]:
        reader.take(event)
    assert reader.seen.blocks == answers.MESSAGE["content"][:1]  # type: ignore[index]


def test_geminis_keep_alive_is_nothing_but_blanks_for_its_client_reads_on_past_nothing_else() -> None:
    event = b'data: {"candidates": []}\r\n\r\n'
    as_the_client = re.compile(rb"^\s*data: (.*)(?:\n\n|\r\r|\r\n\r\n)")
    assert as_the_client.match(kinds.KINDS["gemini"].ping * 3 + event)
    assert [one.data for one in Splitter().feed(kinds.KINDS["gemini"].ping + event) if one.data] == ['{"candidates": []}']
