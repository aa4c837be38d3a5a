"""The bytes of an answer as they come in, and whoever follows them: one writer, any number of readers, each at its own pace."""

import asyncio
from collections.abc import AsyncIterator


class Cut(Exception):
    """The answer broke; its reader's connection must break too, by a reset."""


class Tail:
    """`released` bytes may be read; those beyond wait until what they say is durable. Kept in memory until the last reader has gone."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.released = 0
        self._ended = self._cut = False
        self._waiting = set[asyncio.Future[bool]]()

    def add(self, piece: bytes, *, release: bool) -> None:
        """With `release` all that has come may be read, else nothing more than before."""
        self.data += piece
        if release:
            self.released = len(self.data)
            self._wake()

    def end(self) -> None:
        """All of it is released, and nothing more comes."""
        self.released, self._ended = len(self.data), True
        self._wake()

    def cut(self) -> None:
        """What has come is released, and whoever reads it to there is cut."""
        self.released, self._cut = len(self.data), True
        self._wake()

    async def over(self) -> None:
        """Returns when nothing more comes."""
        while not (self._ended or self._cut):
            await self._change(None)

    async def _change(self, seconds: float | None) -> bool:
        """Whether something changed within so many seconds. A future and a timer, for this is waited for once for every few bytes."""
        loop = asyncio.get_running_loop()
        change = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, _settle, change, False)
        self._waiting.add(change)
        try:
            return bool(await change)
        finally:
            self._waiting.discard(change)
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        for change in self._waiting:
            _settle(change, True)

    async def read(self, start: int, most: int = 65536, *, quiet: float | None = None) -> AsyncIterator[bytes]:
        """From the offset on, as it is released. `quiet`: after so many seconds in which nothing was, an empty piece.

        Raises Cut where the answer broke.
        """
        while True:
            while start < self.released:
                piece = bytes(self.data[start : min(start + most, self.released)])
                start += len(piece)
                yield piece
            if self._cut:
                raise Cut
            if self._ended:
                return
            if not await self._change(quiet):
                yield b""


def _settle(change: "asyncio.Future[bool]", value: bool) -> None:
    if not change.done():
        change.set_result(value)


async def cut_off() -> AsyncIterator[bytes]:
    """An answer of which there is nothing more to be had."""
    tail = Tail()
    tail.cut()
    async for piece in tail.read(0):
        yield piece
