"""Care for pooled database connections around waiting."""

from django.db import connection


def give_back_connection() -> None:
    """Return this thread's connection to the pool; the next query takes one again.

    Without a pool it is kept, for a new one would cost more than it spares; inside a transaction it is kept, for it is needed.
    """
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()
