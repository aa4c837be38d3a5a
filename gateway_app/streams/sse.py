"""Server-sent events, split on bytes: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

The raw bytes of the events, in order, and the tail are the stream again, byte for byte: what is passed on is what came.
"""

import re
from typing import NamedTuple

#: A provider's event is far smaller; a stream that goes on for so long without an end of an event is none.
MOST_EVENT_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventTooLarge(Exception):
    """The stream has no end of an event within the bound: it is not a stream of events."""


class Event(NamedTuple):
    """`type` is empty where no `event:` line gave one; `data` are its `data:` lines, joined; `raw` is all of it, comments too.

    A block of comments alone, a keep-alive, is an event without data.
    """

    type: str
    data: str
    raw: bytes


class Splitter:
    """Bytes in, whole events out. A CR that ends what was fed ends its line at once; an LF that follows later belongs to it."""

    def __init__(self) -> None:
        self._raw = bytearray()  # of the event that is not whole yet
        self._line = bytearray()
        self._type, self._data = "", list[str]()
        self._after_cr = False
        self._first_line = True

    @property
    def tail(self) -> bytes:
        """What was fed and belongs to no whole event yet."""
        return bytes(self._raw)

    def feed(self, data: bytes) -> list[Event]:
        """Raises EventTooLarge."""
        if self._raw or self._first_line or self._after_cr or b"\r" in data or b"\n\n\n" in data or data[:1] == b"\n":
            return self._feed_lines(data)
        *whole, rest = data.split(b"\n\n")
        found = [self._event(block) for block in whole]
        return found + self._feed_lines(rest) if rest else found

    def _event(self, block: bytes) -> Event:
        """Of lines that are whole, with an LF between them: as providers send them, at half the cost of what takes anything."""
        for line in block.split(b"\n"):
            self._take(line)
        event = Event(self._type, "\n".join(self._data), block + b"\n\n")
        self._type, self._data = "", []
        return event

    def _feed_lines(self, data: bytes) -> list[Event]:
        found: list[Event] = []
        position = 0
        if self._after_cr and data[:1] == b"\n":
            self._raw += b"\n"
            position = 1
        if data:
            self._after_cr = False
        for ending in _LINE_END.finditer(data, position):
            stop, after = ending.span()
            self._line += data[position:stop]
            self._raw += data[position:after]
            self._after_cr = after == len(data) and data[after - 1] == 0x0D
            position = after
            event = self._end_line()
            if event is not None:
                found.append(event)
        self._line += data[position:]
        self._raw += data[position:]
        if len(self._raw) > MOST_EVENT_BYTES:
            raise EventTooLarge
        return found

    def _end_line(self) -> Event | None:
        line, self._line = bytes(self._line), bytearray()
        if self._first_line:
            line, self._first_line = line.removeprefix(_BOM), False
        if line:
            self._take(line)
            return None
        event = Event(self._type, "\n".join(self._data), bytes(self._raw))
        self._raw, self._type, self._data = bytearray(), "", []
        return event

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(text)
        elif name == b"event":
            self._type = text
