"""Care for database connections around waiting, and after errors."""

from django.db import connection


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
