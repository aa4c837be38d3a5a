"""A line on which an answer's connection is reset after so many of its events: what a program, or the relay, sees of a resume."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

#: Where a model call's answer begins; what else a client asks passes.
_STREAMS = (b"text/event-stream", b"application/x-keepstate-frames")
HEAD_END = b"\r\n\r\n"


@dataclass
class Cutter:
    """`after` events of the first stream that passes; None: nothing is cut. 0: at the first byte of its body. `ending`: of an event."""

    target: str
    after: int | None
    ending: bytes
    made: bool = False
    url: str = ""
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(self.target)
        there, back = await asyncio.open_connection(parts.hostname, parts.port)
        up = asyncio.create_task(_copy(reader, back))
        self._tasks.add(up)
        up.add_done_callback(self._tasks.discard)
        try:
            await self._down(there, writer, back)
        finally:
            up.cancel()
            back.close()
            writer.close()

    async def _down(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter) -> None:
        seen = b""
        with contextlib.suppress(ConnectionError):
            while piece := await there.read(65536):
                seen += piece
                end = None if self.made else self.place(seen)
                if end is None:
                    writer.write(piece)
                    await writer.drain()
                    continue
                self.made = True
                writer.write(piece[: len(piece) - (len(seen) - end)])
                await writer.drain()
                _reset(writer)
                _reset(back)
                return

    def place(self, seen: bytes) -> int | None:
        """Where in what has passed so many events of the stream have ended; None if they have not."""
        begins = min((place for kind in _STREAMS if (place := seen.find(kind)) >= 0), default=-1)
        head = seen.find(HEAD_END, begins) if begins >= 0 else -1
        if head < 0 or self.after is None:
            return None
        place = head + len(HEAD_END)
        if self.after == 0:
            return place if len(seen) > place else None
        for _ in range(self.after):
            found = seen.find(self.ending, place)
            if found < 0:
                return None
            place = found + len(self.ending)
        return place


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def cutting(target: str, after: int | None, ending: bytes) -> AsyncIterator[Cutter]:
    one = Cutter(target, after, ending)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield one
    finally:
        server.close()
