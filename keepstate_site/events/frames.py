"""Server-sent events as bytes."""

import json
from typing import Any

from rest_framework.utils.encoders import JSONEncoder

from sessions_app.api.event_stream import row_words
from sessions_app.models import SessionEvent

KEEP_ALIVE = b": nothing new\n\n"


def hello(epoch: int) -> bytes:
    return _frame("hello", {"epoch": epoch})


def line(row: SessionEvent, left: list[range]) -> bytes:
    return b"id: %d\n" % row.number + _frame("event", row_words(row, left))


def end(reason: str) -> bytes:
    return _frame("end", {"reason": reason})


def _frame(name: str, data: dict[str, Any]) -> bytes:
    text = json.dumps(data, cls=JSONEncoder, separators=(",", ":"))  # ASCII and one line: no newline of a payload ends a frame
    return f"event: {name}\ndata: {text}\n\n".encode("ascii")
