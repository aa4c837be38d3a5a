"""The data path's own way to the database: psycopg's asynchronous pool, beside Django's. The figures are in docs/decisions/0006."""

import time
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from django.db import connection
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from sessions_app.bounded import bounded_async, reconnect_steadily

Pool = AsyncConnectionPool[AsyncConnection[TupleRow]]
_SIZE = (2, 16)
#: A request waits so long for a connection; longer, and the database does not answer.
WAIT_SECONDS = 5.0
#: And so long for the end of a statement: a database that stands still is one that does not answer, and the caller is told to come again.
STATEMENT_SECONDS = 10.0
#: A connection that was not looked at for so long is looked at before it is given out: a restart of the database breaks them all, and
#: who comes after that should not hear of it.
TRUSTED_SECONDS = 1.0
NAME = "keepstate-model-calls"


def pool() -> Pool:
    """Not open yet: `await pool.open()`. Every statement commits by itself; what belongs together says so."""
    settings: dict[str, Any] = connection.settings_dict
    options = {name: value for name, value in settings["OPTIONS"].items() if name != "pool"}
    names = {"dbname": settings["NAME"], "user": settings["USER"], "password": settings["PASSWORD"], "host": settings["HOST"]}
    given = {name: value for name, value in {**names, "port": settings["PORT"], **options}.items() if value not in ("", None)}
    low, high = _SIZE
    reconnect_steadily()
    return AsyncConnectionPool(
        make_conninfo(**{**given, "application_name": NAME}),
        min_size=low,
        max_size=high,
        timeout=WAIT_SECONDS,
        kwargs={"autocommit": True},
        check=_looked_at(),
        connection_class=bounded_async(STATEMENT_SECONDS),
        open=False,
        name="gateway",
    )


def _looked_at() -> Callable[[AsyncConnection[TupleRow]], Awaitable[None]]:
    known: WeakKeyDictionary[AsyncConnection[TupleRow], float] = WeakKeyDictionary()

    async def check(one: AsyncConnection[TupleRow]) -> None:
        now = time.monotonic()
        if known.get(one, 0.0) < now - TRUSTED_SECONDS:
            await Pool.check_connection(one)
            known[one] = now

    return check
