"""Bytes between two streams, until either ends."""

import asyncio
import socket
from contextlib import suppress

PIECE_BYTES = 64 * 1024
#: A peer that is gone without a word is noticed within about half a minute.
_WATCH = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4), (socket.TCP_USER_TIMEOUT, 30_000))

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def join(one: Stream, other: Stream) -> None:
    """Returns when both are closed. What was received before one ended is still delivered to the other."""
    try:
        await asyncio.wait(
            {asyncio.create_task(_pass_on(one[0], other[1])), asyncio.create_task(_pass_on(other[0], one[1]))},
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        await close(one[1], other[1])


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(PIECE_BYTES):
            writer.write(data)
            await writer.drain()


async def close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
    for writer in writers:
        with suppress(OSError, TimeoutError):
            await asyncio.wait_for(writer.wait_closed(), 5)


def watch(writer: asyncio.StreamWriter) -> None:
    """Have the kernel notice a peer that is gone."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in _WATCH:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
