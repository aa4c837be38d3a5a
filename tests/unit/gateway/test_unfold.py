"""A whole answer, streamed: what a client reads of it is the answer again."""

from typing import Any

import pytest

from gateway_app.streams.kinds import KINDS as TABLE
from gateway_app.streams.sse import Splitter
from gateway_app.streams.unfold import chat
from tests.unit.gateway.test_readers import KINDS

every = pytest.mark.parametrize("kind", list(KINDS))


def reread(kind: str, stream: bytes) -> Any:
    reader = KINDS[kind][0]()
    for event in Splitter().feed(stream):
        reader.take(event)
    return reader


@every
def test_an_answer_that_is_streamed_folds_into_itself(kind: str) -> None:
    whole = KINDS[kind][2]
    assert reread(kind, b"".join(TABLE[kind].unfold(whole))).folded() == whole


@every
def test_it_is_complete_and_tells_the_same_usage(kind: str) -> None:
    _, _, whole, read_json = KINDS[kind]
    assert reread(kind, b"".join(TABLE[kind].unfold(whole))).seen == read_json(whole)


def test_a_client_that_did_not_ask_for_usage_gets_no_chunk_of_it() -> None:
    without = {name: value for name, value in KINDS["chat"][2].items() if name != "usage"}
    stream = b"".join(chat(without))
    assert b"prompt_tokens" not in stream
    assert b'"choices": []' not in stream


def test_an_answer_that_was_cut_short_by_its_limit_is_streamed_as_such() -> None:
    whole = {**KINDS["responses"][2], "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    stream = b"".join(TABLE["responses"].unfold(whole))
    assert b"event: response.incomplete" in stream
    assert reread("responses", stream).folded() == whole
