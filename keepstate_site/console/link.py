"""The web process's end of a terminal: frames from and to the relay of the machine's host."""

import asyncio
import json
from typing import Any

from keepstate_site.console.admission import Visit
from keepstate_site.console.threads import in_thread
from workers.relay.client import open_link, question
from workers.relay.terminals import TERMINAL
from workers.wire import frames

BUFFER_BYTES = 2 * frames.FRAME_BYTES


class Link:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer

    async def receive(self) -> tuple[bytes, bytes] | None:
        """The next frame; None when the relay has gone."""
        try:
            kind, length = frames.FRAME.unpack(await self._reader.readexactly(frames.FRAME.size))
            return (kind, await self._reader.readexactly(length)) if length <= frames.FRAME_BYTES else None
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def type(self, data: bytes) -> None:
        """Waits while the relay does, which waits for a save. Raises OSError."""
        for start in range(0, len(data), frames.FRAME_BYTES):
            self._writer.write(frames.frame(frames.INPUT, data[start : start + frames.FRAME_BYTES]))
            await self._writer.drain()

    async def resize(self, columns: int, rows: int) -> None:
        self._writer.write(frames.frame(frames.SIZE, frames.SIZES.pack(columns, rows)))
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


async def open_terminal(visit: Visit) -> Link:
    """Raises ServiceError: the machine, its guest or the relay is not there."""
    sock = await in_thread(_asked, visit)
    sock.setblocking(False)
    try:
        return Link(*await asyncio.open_unix_connection(sock=sock, limit=BUFFER_BYTES))
    except BaseException:
        sock.close()
        raise


def _asked(visit: Visit) -> Any:
    sock = open_link(visit.session)
    try:
        question(sock, visit.session, TERMINAL, {"columns": visit.columns, "rows": visit.rows, "view": visit.view})
    except BaseException:
        sock.close()
        raise
    return sock


def as_object(data: bytes) -> dict[str, Any]:
    """A relay's notice; {} for what is none."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
