"""The gateway as a server: a listener for each machine, all of one process, each with the channel that it stands for."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from gateway_app.proxy.admission import confirming
from gateway_app.proxy.answer import abort
from gateway_app.proxy.body import BODY_BYTES
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.faults import Wordless
from gateway_app.proxy.gateway import Gateway
from gateway_app.proxy.pool import pool
from gateway_app.proxy.settings import ProxySettings

log = logging.getLogger(__name__)
_http = logging.getLogger(f"{__name__}.http")
_http.addFilter(Wordless())

#: Of a provider: a connection within these, and no silence longer than that; an answer as a whole may take as long as it takes.
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 900.0
_KEPT_ALIVE = 128
#: One machine has so many connections at a time.
MACHINE_CONNECTIONS = 512
#: A door that is closed waits so long at most for its handlers to notice.
CLOSE_SECONDS = 5.0
_NO_LIMIT = 0.0
_HEADER_BYTES = 64 * 1024


@asynccontextmanager
async def gateway(settings: ProxySettings, *, drain_seconds: float, name: str = "") -> AsyncIterator[Gateway]:
    """A gateway with its pool and its client; at the end it waits for its pumps, so long at most.

    It begins without the database too, and answers 503 until there is one. `name`: of its process, no two alike; drawn if empty.
    """
    database = pool()
    await database.open(wait=False)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=60, ttl_dns_cache=60)
    client = aiohttp.ClientSession(timeout=timeout, connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trace_configs=[confirming()])
    one = Gateway(settings, database, client, name)
    beating = asyncio.create_task(one.beat(), name="gateway beat")
    telling = asyncio.create_task(one.deliveries.run(), name="gateway deliveries")
    try:
        yield one
        await one.drain(drain_seconds)
    finally:
        beating.cancel()
        telling.cancel()
        await client.close()
        await database.close()


@dataclass
class Listener:
    """One machine's door."""

    runner: web.AppRunner
    listening: asyncio.Server

    async def shut(self) -> None:
        """No connection is taken any more; those that there are stay."""
        self.listening.close()

    async def drain(self) -> None:
        """What is being answered is answered to its end, however long that takes."""
        self.listening.close()
        await self.runner.cleanup()

    async def close(self) -> None:
        """What is being answered breaks, by a reset."""
        self.listening.close()
        for connection in self.runner.server.connections if self.runner.server else ():
            if connection.transport is not None:
                abort(connection.transport)
        try:
            await asyncio.wait_for(self.runner.cleanup(), CLOSE_SECONDS)
        except TimeoutError:
            log.warning("a machine's door did not close in order")


class Full(asyncio.Protocol):
    """A connection of a machine that has too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        abort(transport)


Who = Callable[[], Awaitable[Channel | None]]


async def listen(one: Gateway, who: Channel | Who, listening: socket.socket) -> Listener:
    """Serve the channel on a socket that listens already. Whoever comes through it is that machine.

    `who` may be asked at each request: while it answers None nobody knows yet whose machine that is, and it is told to ask again. A machine
    that has too many connections is refused more of them by a reset.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        return await one.handle(who if isinstance(who, Channel) else await who(), request)

    server = web.Application(client_max_size=BODY_BYTES, handler_args={"max_line_size": _HEADER_BYTES, "max_field_size": _HEADER_BYTES})
    server.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(
        server,
        access_log=None,
        logger=_http,
        handler_cancellation=True,
        keepalive_timeout=_KEPT_ALIVE,
        auto_decompress=False,
        shutdown_timeout=_NO_LIMIT,
    )
    await runner.setup()
    taken = runner.server
    assert taken is not None

    def protocol() -> asyncio.BaseProtocol:
        return taken() if len(taken.connections) < MACHINE_CONNECTIONS else Full()

    return Listener(runner, await asyncio.get_running_loop().create_server(protocol, sock=listening))
