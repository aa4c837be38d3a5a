"""One followed session: its newest frames, shared by all who follow it."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

#: What a feed keeps in memory for its followers; who is further behind reads for itself.
FRAMES = 256
FRAME_BYTES = 256 * 1024


@dataclass(eq=False)
class Follower:
    """One open stream. `position` is the last number that it was sent; `wake` is set when there may be something for it."""

    account_id: str
    token_id: str
    position: int
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ended: str | None = None

    def end(self, reason: str) -> None:
        self.ended = self.ended or reason
        self.wake.set()


class Feed:
    """`last` is the highest number known; `recent` holds frames without a gap up to it."""

    def __init__(self, session_id: str, last: int):
        self.session_id, self.last = session_id, last
        self.followers: set[Follower] = set()
        self.recent: deque[tuple[int, bytes]] = deque()
        self.dirty = self.reading = False
        self._bytes = 0

    def add(self, frames: list[tuple[int, bytes]]) -> None:
        for number, frame in frames:
            if number <= self.last:
                continue
            self.recent.append((number, frame))
            self.last, self._bytes = number, self._bytes + len(frame)
        while len(self.recent) > FRAMES or self._bytes > FRAME_BYTES:
            self._bytes -= len(self.recent.popleft()[1])
        self.wake()

    def skip_to(self, last: int) -> None:
        """Further behind than one read: followers read for themselves up to there."""
        self.recent.clear()
        self._bytes, self.last = 0, max(self.last, last)
        self.wake()

    def wake(self) -> None:
        for follower in self.followers:
            follower.wake.set()

    def frames_after(self, position: int) -> list[tuple[int, bytes]] | None:
        """What is newer and in memory; None where memory does not reach back so far."""
        if position >= self.last:
            return []
        if not self.recent or position < self.recent[0][0] - 1:
            return None
        return [(number, frame) for number, frame in self.recent if number > position]
