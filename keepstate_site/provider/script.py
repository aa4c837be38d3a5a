"""What the fake provider is told to do wrong, call by call: data, so that a test reads as what happens."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any


class Cut(StrEnum):
    """How a stream breaks after `events` of it."""

    RESET = "reset"  # the connection is reset
    CLOSE = "close"  # it is closed within the body
    END = "end"  # the body ends in order, without the terminal event
    ERROR = "error"  # the provider tells of an error within the stream, and ends
    HANG = "hang"  # nothing more comes, and the connection stays


@dataclass(frozen=True)
class Act:
    """One call's fate. `status` other than 200: that error at once. `events`: of a stream, before the cut; 0: before the headers.

    `hold`: after `events` of a stream, or before an answer that is none, it waits until it is released; then it goes on.
    `wait_seconds` before the first byte, `pace_seconds` between events; `words` in the answer, drawn from the request, or what it is to
    `say`; `retry_after` beside an error.
    """

    status: int = 200
    retry_after: str = ""
    wait_seconds: float = 0.0
    pace_seconds: float = 0.0
    words: int = 12
    say: str = ""
    cut: Cut | None = None
    events: int = 0
    hold: bool = False

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Act":
        """Raises ValueError for a field that is none."""
        unknown = set(told) - {one.name for one in fields(cls)}
        if unknown:
            raise ValueError(f"no part of an act: {', '.join(sorted(unknown))}")
        return cls(**{**told, "cut": Cut(told["cut"]) if told.get("cut") else None})


class Script:
    """The next calls' acts, in order; then every call's `default`."""

    def __init__(self) -> None:
        self.default = Act()
        self._next: deque[Act] = deque()

    def add(self, acts: list[Act]) -> None:
        self._next.extend(acts)

    def take(self) -> Act:
        return self._next.popleft() if self._next else self.default

    def clear(self) -> None:
        self.default = Act()
        self._next.clear()
