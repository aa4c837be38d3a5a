"""Connections to PostgreSQL that do not wait for ever.

The server's own limits (statement_timeout) help nobody where the server itself stands still: its disk does not answer, or its machine is
paused. Its kernel goes on acknowledging, so keepalives see a live peer, and every caller would hang for as long as that lasts.
"""

from functools import cache
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout  # what `wait` raises where it was given a time; the library has no public name for it
from psycopg.rows import TupleRow
from psycopg_pool.base import AttemptWithBackoff

T = TypeVar("T")
#: So often a wait looks whether it is over; an answer is not kept back by it.
_LOOK_SECONDS = 0.1


class Silent(OperationalError):
    """The server has not answered in time. The connection is closed; whether what was asked of it had an effect is not known."""

    def __init__(self, seconds: float):
        super().__init__(f"the database has not answered for {seconds:g} s; the connection is closed")


def reconnect_steadily() -> None:
    """Pools of this process try each second to connect, one attempt at a time. The library's pauses double: after an outage of a minute a
    pool would go on failing for half a minute more, for nobody else may try while it pauses.
    """
    AttemptWithBackoff.DELAY_BACKOFF = 1.0


@cache
def bounded(seconds: float) -> type[Connection[Any]]:
    """A class of connections on which no exchange with the server takes longer. Each raises Silent then."""

    class Bounded(Connection[TupleRow]):
        def wait(self, gen: PQGen[T], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> T:
            try:
                return super().wait(gen, interval, seconds if timeout is None else timeout)
            except _WaitTimeout:
                if timeout is not None:
                    raise
                self.pgconn.finish()  # its answer may still come, and must not be taken for another question's
                raise Silent(seconds) from None

    return Bounded


@cache
def bounded_async(seconds: float) -> type[AsyncConnection[TupleRow]]:
    """As `bounded`."""

    class BoundedAsync(AsyncConnection[TupleRow]):
        async def wait(self, gen: PQGen[T], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> T:  # noqa: ASYNC109
            try:
                return await super().wait(gen, interval, seconds if timeout is None else timeout)
            except _WaitTimeout:
                if timeout is not None:
                    raise
                self.pgconn.finish()
                raise Silent(seconds) from None

    return BoundedAsync
