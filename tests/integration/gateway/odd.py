"""A provider that answers with bytes that no sound one sends, and remembers what it was sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gateway_app.states import Provider
from tests.integration.gateway.house import House


@dataclass
class Odd:
    """`answer`: the raw bytes of the next answers; `stays`: the connection is left open behind them."""

    answer: bytes = b""
    stays: bool = False
    asked: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
        self.asked.append(head + await reader.readexactly(length))
        writer.write(self.answer)
        await writer.drain()
        if self.stays:
            await reader.read()
        writer.close()


def http(body: bytes, *headers: str, status: str = "200 OK", type_: str = "application/json", length: bool = True) -> bytes:
    """An answer whose connection ends behind it; without a length its end is that."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {type_}", "Connection: close", *headers]
    lines += [f"Content-Length: {len(body)}"] if length else []
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def events(body: bytes, *headers: str) -> bytes:
    return http(body, *headers, type_="text/event-stream", length=False)


@asynccontextmanager
async def odd(at: House) -> AsyncIterator[Odd]:
    """In the place of all providers."""
    one = Odd()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    before = dict(at.gate.settings.bases)
    at.gate.settings.bases.update(dict.fromkeys(Provider, f"http://127.0.0.1:{port}"))
    try:
        yield one
    finally:
        at.gate.settings.bases.update(before)
        server.close()


async def raw(at: House, data: bytes) -> bytes:
    """What the machine's door answers to these bytes, to the end of the connection or of what comes within a head and its length."""
    port = urlsplit(at.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
    body = await reader.readexactly(length)
    writer.close()
    return head + body
