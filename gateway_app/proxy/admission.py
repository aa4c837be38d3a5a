"""Whether what was admitted may still leave, asked as late as can be: when the connection to the provider is there.

A process that stood still in between (its host was paused, or cut off) may go on after its host counts as lost and the machine's session
goes on elsewhere. What it had been about to send is not sent then. A stop between this question and the request's first byte is not seen.
"""

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp
from psycopg import OperationalError

from gateway_app.proxy import standing
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.pool import Pool

#: An admission that is younger is believed: no host is lost that told of itself so lately.
FRESH_SECONDS = 1.0
_TRIES = 5


class Overtaken(Exception):
    """The session has gone on to another epoch, or does not run any more. Nothing was sent."""


def now() -> float:
    """Seconds that go on while the process, or the whole host, stands still."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Admission:
    """`at`: when it was asked for. Make it before the database is asked."""

    channel: Channel
    database: Pool
    at: float = field(default_factory=now)

    async def confirm(self) -> None:
        """Raises Overtaken; OperationalError or PoolTimeout where the database does not answer, or only as slowly as an admission ages."""
        for _ in range(_TRIES):
            if now() - self.at <= FRESH_SECONDS:
                return
            at = now()
            async with self.database.connection() as connection:
                if not await standing.runs(connection, self.channel):
                    raise Overtaken
            self.at = at
        raise OperationalError("the database answers too slowly to admit a call")


def confirming() -> aiohttp.TraceConfig:
    """For a client whose requests carry an admission: each is confirmed between its connection and its first byte."""

    async def confirm(_: aiohttp.ClientSession, context: SimpleNamespace, __: Any) -> None:
        await context.trace_request_ctx.confirm()

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(confirm)
    trace.on_connection_reuseconn.append(confirm)
    return trace
