"""The terminal as raw bytes after `Upgrade: ks-attach`: GET /api/sessions/<id>/attach?cols&rows, as the published client asks for it.

ASGI has no such upgrade. The connection is taken from the HTTP server where it would hand one to its WebSocket protocol, answered here
(401, 404, 409 ... as JSON before the 101), and then carries bytes. When the client has no more to type, the output still comes.
"""

import asyncio
import json
import re
import select
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from keepstate_site.console.admission import Visit, admit, forwarded_for, is_secure
from keepstate_site.console.bridge import CONSOLES, SLOW, bridge
from keepstate_site.console.link import open_terminal
from keepstate_site.console.threads import in_thread
from sessions_app.api.envelope import Shape, failure
from sessions_app.errors import FleetUnavailable, NotServed, ServiceError

PATH = re.compile(r"/api/sessions/([^/]+)/attach")
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ks-attach\r\nConnection: Upgrade\r\n\r\n"
READ_BYTES = 32 * 1024
LOOK_SECONDS = 2.0

_places = asyncio.Semaphore(CONSOLES)


class Wire:
    """The connection as a `Screen`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer

    async def show(self, output: bytes) -> None:
        self._writer.write(output)
        await self._writer.drain()

    async def tell(self, notice: dict[str, Any]) -> None:
        """Raw bytes have no place for a notice."""

    async def receive(self) -> bytes | tuple[int, int] | None:
        try:
            data = await self._reader.read(READ_BYTES)
        except OSError:
            return None
        if data:
            return data
        while not self._gone():  # noqa: ASYNC110  # the client's input has ended, not its interest; nothing tells when that does
            await asyncio.sleep(LOOK_SECONDS)
        return None

    def _gone(self) -> bool:
        """After the end of input the event loop does not look at the connection any more, unless there is something to send."""
        if self._writer.transport.is_closing():
            return True
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket"), 0)  # an error and a hang-up are told unasked
        return bool(poll.poll(0))


async def attach(
    target: str, headers: Mapping[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, encrypted: bool, peer: str
) -> None:
    """Serve one request for the upgrade, and close the connection. `peer` is the address of its other end."""
    try:
        try:
            if _places.locked():
                raise FleetUnavailable("This process has as many consoles open as it takes. Nothing was opened.")
            async with _places:
                visit = await in_thread(_admitted, target, headers, encrypted, peer)
                link = await open_terminal(visit)
                _keep_alive(writer)
                writer.write(SWITCHED)
                if await bridge(visit, link, Wire(reader, writer), "ks-attach") == SLOW:
                    writer.transport.abort()  # it would else be kept until the client reads what is queued for it
        except ServiceError as error:
            writer.write(_refusal(error))
            await writer.drain()
    except OSError:
        pass  # the client has gone
    finally:
        writer.close()


def _admitted(target: str, headers: Mapping[str, str], encrypted: bool, peer: str) -> Visit:
    parts = urlsplit(target)
    found = PATH.fullmatch(unquote(parts.path))
    if found is None:
        raise NotServed("This route has no upgrade ks-attach. Nothing was opened.", next_action="See the routes at /api/docs.")
    client = forwarded_for(headers) or peer
    return admit(found[1], headers, dict(parse_qsl(parts.query)), (), secure=is_secure(encrypted, headers), client=client)


def _refusal(error: ServiceError) -> bytes:
    body = json.dumps(failure(Shape.PLAIN, error.as_dict()), default=str).encode()
    head = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Raw bytes have no pings: the kernel asks whether the client is still there."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
