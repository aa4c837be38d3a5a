"""The data path's own way to the database: psycopg's asynchronous pool, beside Django's. The figures are in docs/decisions/0006."""

from typing import Any

from django.db import connection
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

Pool = AsyncConnectionPool[AsyncConnection[TupleRow]]
_SIZE = (2, 16)
#: A request waits so long for a connection; longer, and the database does not answer.
WAIT_SECONDS = 5.0


def pool() -> Pool:
    """Not open yet: `await pool.open()`. Every statement commits by itself; what belongs together says so."""
    settings: dict[str, Any] = connection.settings_dict
    options = {name: value for name, value in settings["OPTIONS"].items() if name != "pool"}
    names = {"dbname": settings["NAME"], "user": settings["USER"], "password": settings["PASSWORD"], "host": settings["HOST"]}
    given = {name: value for name, value in {**names, "port": settings["PORT"], **options}.items() if value not in ("", None)}
    low, high = _SIZE
    return AsyncConnectionPool(
        make_conninfo(**given),
        min_size=low,
        max_size=high,
        timeout=WAIT_SECONDS,
        kwargs={"autocommit": True},
        check=None,
        open=False,
        name="gateway",
    )
