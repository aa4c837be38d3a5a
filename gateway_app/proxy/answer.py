"""An answer as its caller gets it: from a pump that still reads, or from the record; to a program as HTTP, to a relay in frames.

A connection whose answer broke is reset. It is never ended cleanly, for many clients take a clean end for a whole answer.
"""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from aiohttp import web

from gateway_app.proxy.refusals import Refusal
from gateway_app.proxy.tail import Cut
from gateway_app.states import Provider

#: So long without a byte, and a stream gets a keep-alive between two events.
PING_SECONDS = 10.0
FRAMES = "application/x-keepstate-frames"


class Frame(IntEnum):
    """What a relay is sent: one byte of kind, four of length (network order), the payload."""

    HEAD = 1  # JSON: {"status", "headers", "call", "served", "ping": a keep-alive of the answer's API}
    DATA = 2
    PING = 3
    END = 4
    CUT = 5
    REFUSED = 6  # JSON: {"status", "headers", "body"}: the gateway's own refusal, where it comes after the first ping


def frame(kind: Frame, payload: bytes = b"") -> bytes:
    return struct.pack("!BI", kind, len(payload)) + payload


@dataclass(frozen=True)
class Answer:
    """`body` yields the answer's bytes, an empty piece where nothing has come for a while, or raises Cut.

    `ping`: a keep-alive of its API, empty for what is no stream.
    """

    status: int
    headers: list[tuple[str, str]]
    body: AsyncIterator[bytes]
    ping: bytes
    call_id: str
    served: str


async def give(request: web.Request, answer: Answer) -> tuple[web.StreamResponse, bool]:
    """To a program. Returns the response as it was given, and whether all of it was handed to the connection."""
    response = web.StreamResponse(status=answer.status)
    for name, value in answer.headers:
        response.headers.add(name, value)
    response.headers["x-keepstate-call"] = answer.call_id
    if answer.served != "upstream":
        response.headers["x-keepstate-replayed"] = "1"
    try:
        await response.prepare(request)
        ends_by_reset(request.transport, True)
        async for piece in answer.body:
            if data := piece or answer.ping:
                await response.write(data)
        ends_by_reset(request.transport, False)
        await response.write_eof()
    except Cut:
        if request.transport is not None:
            abort(request.transport)
        return response, False
    except ConnectionError:
        return response, False
    return response, True


async def give_frames(request: web.Request, finding: Awaitable[Answer], provider: Provider | None) -> tuple[web.StreamResponse, bool]:
    """To a relay, which is pinged from the beginning, for it may wait long for the first byte. Raises Refusal while nothing was sent."""
    response = web.StreamResponse(headers={"content-type": FRAMES})
    task = asyncio.ensure_future(finding)
    ends_by_reset(request.transport, True)
    try:
        while not (await asyncio.wait({task}, timeout=PING_SECONDS))[0]:
            if not response.prepared:
                await response.prepare(request)
            await response.write(frame(Frame.PING))
        last = await _frames(request, response, task, provider)
        ends_by_reset(request.transport, False)
        await response.write_eof()
    except ConnectionError:
        return response, False
    finally:
        task.cancel()
    return response, last == Frame.END


async def _frames(request: web.Request, response: web.StreamResponse, found: "asyncio.Future[Answer]", provider: Provider | None) -> Frame:
    """Returns the last frame that was written."""
    try:
        answer = found.result()
    except Refusal as refusal:
        if not response.prepared:
            ends_by_reset(request.transport, False)
            raise
        told: dict[str, object] = {"status": refusal.status, "headers": [*refusal.headers().items(), ("content-type", "application/json")]}
        await response.write(frame(Frame.REFUSED, json.dumps({**told, "body": refusal.body(provider).decode()}).encode()))
        return Frame.REFUSED
    if not response.prepared:
        await response.prepare(request)
    head = {"status": answer.status, "headers": answer.headers, "call": answer.call_id, "served": answer.served}
    await response.write(frame(Frame.HEAD, json.dumps({**head, "ping": answer.ping.decode()}).encode()))
    last = Frame.END
    try:
        async for piece in answer.body:
            await response.write(frame(Frame.DATA, piece) if piece else frame(Frame.PING))
    except Cut:
        last = Frame.CUT
    await response.write(frame(last))
    return last


def abort(transport: asyncio.WriteTransport) -> None:
    """Its end by RST, now: whoever reads it knows that there was more. What was written and not sent yet is dropped."""
    ends_by_reset(transport, True)
    transport.abort()


def ends_by_reset(transport: asyncio.BaseTransport | None, yes: bool) -> None:
    """How the connection ends if it is closed now, by whomever: by the kernel too, for a process that is killed.

    One that has ended already stays as it is.
    """
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is not None and sock.fileno() >= 0 and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", int(yes), 0))


async def ready(pieces: Iterable[bytes], start: int = 0) -> AsyncIterator[bytes]:
    """Bytes that are there already, from an offset on."""
    for piece in pieces:
        if start >= len(piece):
            start -= len(piece)
            continue
        yield piece[start:]
        start = 0
