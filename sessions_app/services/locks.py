"""One worker of the whole fleet at a time, for as long as it lives: advisory locks of the database's session.

A process that dies, or loses its connection, loses the lock with it; nothing has to expire. What is done under the lock must all the same
be safe for a second worker to find half done.
"""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, connection

_POLL_SECONDS = 0.05


class Busy(Exception):
    """Another worker holds it still. Nothing was done; ask again."""


@contextmanager
def exclusive(name: str, wait_seconds: float) -> Iterator[None]:
    """Prerequisite: outside a transaction. Raises Busy after `wait_seconds` (0: at once).

    The lock belongs to this thread's connection, which the block must not close.
    """
    number = int.from_bytes(hashlib.sha256(f"keepstate/{name}".encode()).digest()[:8], "big", signed=True)
    deadline, pause = time.monotonic() + wait_seconds, threading.Event()
    while not _asked("SELECT pg_try_advisory_lock(%s)", number):
        if time.monotonic() >= deadline:
            raise Busy(name)
        pause.wait(_POLL_SECONDS)
    try:
        yield
    finally:
        try:
            _asked("SELECT pg_advisory_unlock(%s)", number)
        except DatabaseError:  # the connection is gone, and the lock with it
            connection.close()


def _asked(statement: str, number: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, [number])
        return bool(cursor.fetchone()[0])
