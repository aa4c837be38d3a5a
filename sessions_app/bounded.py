"""Connections to PostgreSQL that do not wait for ever, and whose pools forget the others when one breaks.

The server's own limits (statement_timeout) help nobody where the server itself stands still: its disk does not answer, or its machine is
paused. Its kernel goes on acknowledging, so keepalives see a live peer, and every caller would hang for as long as that lasts.

A restart breaks all connections at once. A pool that finds them one by one keeps a caller for a second with each, for the library pauses
between two looks; and a pool that trusts a connection for a while gives it out broken, each to a caller of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from time import monotonic
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

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


#: By pool: when its connections were exchanged.
_exchanged: WeakKeyDictionary[Any, float] = WeakKeyDictionary()


class _Made:
    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.made = monotonic()


@contextmanager
def _within(connection: Any, seconds: float, timeout: float | None) -> Iterator[None]:
    """Raises Silent in the library's place, unless it was the caller's own time that is over."""
    try:
        yield
    except _WaitTimeout:
        if timeout is not None:
            raise
        connection.pgconn.finish()  # its answer may still come, and must not be taken for another question's
        raise Silent(seconds) from None


def _to_exchange(connection: Any) -> Any | None:
    """The pool of a connection that broke, unless it has exchanged the others since this one was made: what ended one ended them all."""
    pool = getattr(connection, "_pool", None)  # the library sets it on what a pool gives out, and has no public name for it
    if not connection.closed or pool is None or _exchanged.get(pool, 0.0) > connection.made:
        return None
    _exchanged[pool] = monotonic()
    return pool


@cache
def bounded(seconds: float) -> type[Connection[Any]]:
    """A class of connections on which no exchange with the server takes longer. Each raises Silent then."""

    class Bounded(_Made, Connection[TupleRow]):
        def wait(self, gen: PQGen[T], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> T:
            try:
                with _within(self, seconds, timeout):
                    return super().wait(gen, interval, seconds if timeout is None else timeout)
            except OperationalError:
                if pool := _to_exchange(self):
                    pool.drain()
                raise

    return Bounded


@cache
def bounded_async(seconds: float) -> type[AsyncConnection[TupleRow]]:
    """As `bounded`."""

    class BoundedAsync(_Made, AsyncConnection[TupleRow]):
        async def wait(self, gen: PQGen[T], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> T:  # noqa: ASYNC109
            try:
                with _within(self, seconds, timeout):
                    return await super().wait(gen, interval, seconds if timeout is None else timeout)
            except OperationalError:
                if pool := _to_exchange(self):
                    await pool.drain()
                raise

    return BoundedAsync
