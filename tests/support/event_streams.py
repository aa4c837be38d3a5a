"""An event stream read through the site's own ASGI application, in the test's loop; nothing listens on a port."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import connection

from keepstate_site.asgi import application

T = TypeVar("T")
SECONDS = 20


@dataclass
class Stream:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    served: asyncio.Future[None] = field(default_factory=asyncio.Future)
    _rest: str = ""

    async def next(self) -> tuple[str, Any, str | None]:
        """The next frame that is no comment: event, data, id."""
        while True:
            while "\n\n" not in self._rest:
                piece = await asyncio.wait_for(self.pieces.get(), SECONDS)
                assert piece is not None, f"the stream ended after {self._rest!r}"
                self._rest += piece.decode()
            frame, _, self._rest = self._rest.partition("\n\n")
            if not frame.startswith(":"):
                fields = dict(line.split(": ", 1) for line in frame.split("\n"))
                return fields["event"], json.loads(fields["data"]), fields.get("id")

    async def numbers(self, count: int) -> list[int]:
        return [(await self.next())[1]["stream_seq"] for _ in range(count)]

    async def body(self) -> Any:
        """Of an answer that is no stream."""
        pieces = b""
        while (piece := await asyncio.wait_for(self.pieces.get(), SECONDS)) is not None:
            pieces += piece
        return json.loads(pieces)


@asynccontextmanager
async def opened(
    path: str, plain: str, *, block: asyncio.Event | None = None, headers: dict[str, str] | None = None
) -> AsyncIterator[Stream]:
    """`block`: the client takes nothing of the body until it is set."""
    stream, sent = Stream(), asyncio.Event()

    async def receive() -> Any:
        if not sent.is_set():
            sent.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await stream.left.wait()
        return {"type": "http.disconnect"}

    started = asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            stream.status = message["status"]
            stream.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            started.set()
            return
        if block is not None:
            await block.wait()
        await stream.pieces.put(message["body"])
        if not message.get("more_body"):
            await stream.pieces.put(None)

    stream.served = asyncio.ensure_future(application(_scope(path, plain, headers or {}), receive, send))
    try:
        await asyncio.wait_for(started.wait(), SECONDS)
        yield stream
    finally:
        stream.left.set()
        await asyncio.wait_for(stream.served, SECONDS)


def _scope(path: str, plain: str, headers: dict[str, str]) -> Any:
    where, _, query = path.partition("?")
    sent = {"host": "testserver", "authorization": f"Bearer {plain}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": where,
        "raw_path": where.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
    }


async def in_database(act: Callable[[], T]) -> T:
    def do() -> T:
        try:
            return act()
        finally:
            connection.close()

    return await asyncio.to_thread(do)
