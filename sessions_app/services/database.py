"""Care for database connections around waiting, and after errors; and locks by name."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

#: The database did not answer, or closed the connection: what was asked of it may or may not have had its effect.
AWAY = (OperationalError, InterfaceError)

_BRIEF_MILLISECONDS = 500


class Busy(Exception):
    """Somebody holds what a transaction needed, for longer than it waits. Nothing was written."""


@contextmanager
def briefly() -> Iterator[None]:
    """A transaction that waits half a second for each lock, and no longer: for what comes again within seconds anyway, on one of few
    slots. Whoever stands still in the middle of a commit holds his rows until the database ends his connection. Raises Busy.

    Inside another transaction the bound stays until that one ends.
    """
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(_BRIEF_MILLISECONDS)])
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise Busy(str(error)) from error
        raise


def give_back_connection() -> None:
    """Return this thread's connection to the pool; the next query takes one again.

    Without a pool it is kept, for a new one would cost more than it spares; inside a transaction it is kept, for it is needed.
    """
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()


def drop_broken_connection() -> None:
    """After an error: let go of a connection that the server has closed, so that what is done about the error gets a new one.

    A server that restarts in the middle of long work would else fail everything that the work still has to write.
    """
    if connection.errors_occurred and not connection.in_atomic_block and not connection.is_usable():
        connection.close()


def hold(name: str) -> None:
    """One transaction at a time past this line, by name, until it ends. Prerequisite: inside a transaction.

    It stands beside the locks of rows: whoever has an account's row FOR SHARE, as every change has, could not take more of it without
    waiting for another one that wants the same.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(name)])


def hold_if_free(name: str) -> bool:
    """As `hold`, without waiting. False: another transaction holds it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [lock_number(name)])
        return bool(cursor.fetchone()[0])


def lock_number(name: str) -> int:
    """What PostgreSQL knows the name as."""
    return int.from_bytes(hashlib.sha256(f"keepstate/{name}".encode()).digest()[:8], "big", signed=True)
