"""Where a line of the client matrix is cut: after so many events of the stream, whether a program or a relay reads it."""

import pytest

from gateway_app.proxy.answer import Frame, frame
from tests.clients.cutter import Cutter

BEFORE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"  # of another request on the same connection
TO_A_PROGRAM = BEFORE + b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
HEAD = frame(Frame.HEAD, b'{"headers": [["content-type", "text/event-stream"]]}')
TO_A_RELAY = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-keepstate-frames\r\n\r\n"


@pytest.mark.parametrize(("head", "between"), [(TO_A_PROGRAM, b""), (TO_A_RELAY, HEAD)])
def test_it_is_cut_right_after_the_event(head: bytes, between: bytes) -> None:
    line = Cutter("", 2, b"\n\n")
    until = head + between + b"data: 1\n\ndata: 2\n\n"
    assert line.place(until[:-1]) is None
    assert line.place(until + b"data: 3\n\n") == len(until)


def test_without_an_event_it_is_cut_at_the_bodys_first_byte() -> None:
    line = Cutter("", 0, b"\n\n")
    assert line.place(TO_A_PROGRAM) is None
    assert line.place(TO_A_PROGRAM + b"d") == len(TO_A_PROGRAM)


def test_what_is_no_stream_passes() -> None:
    assert Cutter("", 0, b"\n\n").place(BEFORE + b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}\n\n") is None
