"""Care for database connections around waiting, and after errors; and locks by name."""

import hashlib

from django.db import InterfaceError, OperationalError, connection

#: The database did not answer, or closed the connection: what was asked of it may or may not have had its effect.
AWAY = (OperationalError, InterfaceError)


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
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_number(name)])


def hold_if_free(name: str) -> bool:
    """As `hold`, without waiting. False: another transaction holds it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_number(name)])
        return bool(cursor.fetchone()[0])


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"keepstate/{name}".encode()).digest()[:8], "big", signed=True)
