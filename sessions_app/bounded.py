"""Connections to PostgreSQL that do not wait for ever, and whose pools forget the others when one breaks.

The server's own limits (statement_timeout) help nobody where the server itself stands still: its disk does not answer, or its machine is
paused. Its kernel goes on acknowledging, so keepalives see a live peer, and every caller would hang for as long as that lasts.

A restart breaks all connections at once. A pool that finds them one by one keeps a caller for a second with each, for the library pauses
between two looks; and a pool that trusts a connection for a while gives it out broken, each to a caller of its own.
"""

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


def _to_exchange(connection: Any, made: float) -> Any | None:
    """The pool of a broken connection, unless it has exchanged the others since this one was made: what ended one has ended them all."""
    pool = getattr(connection, "_pool", None)  # the library sets it on what a pool gives out, and has no public name for it
    if pool is None or _exchanged.get(pool, 0.0) > made:
        return None
    _exchanged[pool] = monotonic()
    return pool


@cache
def bounded(seconds: float) -> type[Connection[Any]]:
    """A class of connections on which no exchange with the server takes longer. Each raises Silent then."""

    class Bounded(Connection[TupleRow]):
        def __init__(self, *arguments: Any, **options: Any):
            super().__init__(*arguments, **options)
            self._made = monotonic()

        def wait(self, gen: PQGen[T], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> T:
            lost: OperationalError
            try:
                return super().wait(gen, interval, seconds if timeout is None else timeout)
            except _WaitTimeout:
                if timeout is not None:
                    raise
                self.pgconn.finish()  # its answer may still come, and must not be taken for another question's
                lost = Silent(seconds)
            except OperationalError as error:
                if not self.closed:
                    raise
                lost = error
            if pool := _to_exchange(self, self._made):
                pool.drain()
            raise lost from None

    return Bounded


@cache
def bounded_async(seconds: float) -> type[AsyncConnection[TupleRow]]:
    """As `bounded`."""

    class BoundedAsync(AsyncConnection[TupleRow]):
        def __init__(self, *arguments: Any, **options: Any):
            super().__init__(*arguments, **options)
            self._made = monotonic()

        async def wait(self, gen: PQGen[T], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> T:  # noqa: ASYNC109
            lost: OperationalError
            try:
                return await super().wait(gen, interval, seconds if timeout is None else timeout)
            except _WaitTimeout:
                if timeout is not None:
                    raise
                self.pgconn.finish()
                lost = Silent(seconds)
            except OperationalError as error:
                if not self.closed:
                    raise
                lost = error
            if pool := _to_exchange(self, self._made):
                await pool.drain()
            raise lost from None

    return BoundedAsync
