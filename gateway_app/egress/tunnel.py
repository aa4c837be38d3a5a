"""Bytes between a machine and the host that it asked for, each way at the pace of whoever reads; counted, and cut at any time."""

import asyncio
from collections.abc import Callable

from gateway_app.egress.dial import Pair
from gateway_app.egress.names import Target
from gateway_app.proxy.answer import abort
from gateway_app.proxy.channel import Channel

_PIECE = 64 * 1024


class Tunnel:
    """`count` is told (sent, received) for each piece. Made within the task that runs it: to cut the one is to cancel the other."""

    def __init__(self, who: Channel, wanted: Target, machine: Pair, host: Pair, count: Callable[[int, int], None]):
        self.who, self.wanted = who, wanted
        self.moved_at = asyncio.get_running_loop().time()
        self._machine, self._host, self._count = machine, host, count
        self.task = asyncio.current_task()

    def cut(self) -> None:
        """Both ends are reset, now."""
        self.reset()
        if self.task is not None:
            self.task.cancel()

    def reset(self) -> None:
        for _, writer in (self._machine, self._host):
            abort(writer.transport)

    async def run(self, body_bytes: int | None) -> None:
        """Until both sides have ended; with `body_bytes` one request with that much of a body, until the host has ended.

        Raises OSError where a side broke: then the other is to break too.
        """
        up = asyncio.create_task(self._up() if body_bytes is None else self._up_to(body_bytes))
        down = asyncio.create_task(self._down())
        pending = {up, down}
        needed = pending if body_bytes is None else {down}
        try:
            while needed & pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def close(self) -> None:
        """What was written is handed over first; whoever does not take it is cut like anybody who is idle. Raises OSError."""
        for _, writer in (self._host, self._machine):
            writer.close()
            await writer.wait_closed()

    async def _up(self) -> None:
        while piece := await self._machine[0].read(_PIECE):
            await self._send(piece)
        self._host[1].write_eof()

    async def _up_to(self, left: int) -> None:
        while left:
            piece = await self._machine[0].read(min(_PIECE, left))
            if not piece:
                raise ConnectionResetError("the program left within its request")
            await self._send(piece)
            left -= len(piece)
        if await self._machine[0].read(1):
            raise ConnectionResetError("another request, perhaps for another host")

    async def _send(self, piece: bytes) -> None:
        self._tell(len(piece), 0)
        self._host[1].write(piece)
        await self._host[1].drain()

    async def _down(self) -> None:
        while piece := await self._host[0].read(_PIECE):
            self._tell(0, len(piece))
            self._machine[1].write(piece)
            await self._machine[1].drain()
        self._machine[1].write_eof()

    def _tell(self, sent: int, received: int) -> None:
        self.moved_at = asyncio.get_running_loop().time()
        self._count(sent, received)
