"""Streams of events: split the same wherever the network cuts them, and passed on byte for byte."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_app.streams import sse
from gateway_app.streams.sse import Event, EventTooLarge, Splitter
from tests.unit.gateway import answers

STREAMS = [answers.MESSAGE_STREAM, answers.RESPONSE_STREAM, answers.CHAT_STREAM, answers.GENERATE_STREAM]
_LINES = st.sampled_from(
    [b"data: x", b"data:", b": ping", b"event: a", b"id: 1", b"retry: 3", b"nonsense", b"data: \xc3\xbc", b"", b"\xff"]
)
_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def split(pieces: list[bytes]) -> tuple[list[Event], bytes]:
    splitter = Splitter()
    return [event for piece in pieces for event in splitter.feed(piece)], splitter.tail


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(bounds)]


@pytest.mark.parametrize("stream", STREAMS)
@given(places=st.lists(st.integers(0, 10_000), max_size=12))
def test_where_a_stream_is_cut_changes_nothing(stream: bytes, places: list[int]) -> None:
    whole, _ = split([stream])
    found, tail = split(cut(stream, places))
    assert [(one.type, one.data) for one in found] == [(one.type, one.data) for one in whole]
    assert b"".join(one.raw for one in found) + tail == stream


@given(lines=st.lists(st.tuples(_LINES, _ENDS), max_size=20), places=st.lists(st.integers(0, 500), max_size=8))
def test_every_byte_that_came_is_passed_on_in_order_whatever_came(lines: list[tuple[bytes, bytes]], places: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    whole, _ = split([stream])
    found, tail = split(cut(stream, places))
    assert b"".join(one.raw for one in found) + tail == stream
    assert [(one.type, one.data) for one in found] == [(one.type, one.data) for one in whole]


@given(st.binary(max_size=300))
def test_no_bytes_break_the_splitter(data: bytes) -> None:
    found, tail = split([data[:100], data[100:]])
    assert b"".join(one.raw for one in found) + tail == data


def test_data_of_several_lines_is_joined_and_comments_are_no_data() -> None:
    (ping, event), tail = split([b": ping\n\nevent: a\ndata: one\ndata:two\n: more\n\ndata: not"])
    assert (ping.data, ping.raw) == ("", b": ping\n\n")
    assert (event.type, event.data, tail) == ("a", "one\ntwo", b"data: not")


def test_an_event_is_given_as_soon_as_its_last_line_ends_even_by_a_cr() -> None:
    splitter = Splitter()
    assert [one.data for one in splitter.feed(b"data: x\r\r")] == ["x"]
    (later,) = splitter.feed(b"\ndata: y\n\n")
    assert (later.data, later.raw) == ("y", b"\ndata: y\n\n")


def test_a_mark_of_byte_order_is_no_part_of_the_first_line() -> None:
    ((event,), _) = split([b"\xef\xbb\xbfdata: x\n\n"])
    assert event.data == "x"


def test_an_event_without_an_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MOST_EVENT_BYTES", 1000)
    splitter = Splitter()
    splitter.feed(b"data: " + b"x" * 900)
    with pytest.raises(EventTooLarge):
        splitter.feed(b"x" * 200)
