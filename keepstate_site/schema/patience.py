"""Changes of the schema beside a service that works.

An ALTER TABLE that waits for its lock keeps every later query of that table waiting behind it, however quick it would be itself. So it
waits half a second, gives up, lets the others through and is tried again, until its patience has ended. An index that is built concurrently
keeps nobody waiting, and may wait as long as it likes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration

#: The longest that queries of a table wait behind one try.
TRY_MILLISECONDS = 500
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 5.0
#: "lock not available", and "deadlock detected": the migration was rolled back, and may be tried again.
_IN_THE_WAY = ("55P03", "40P01")
#: One schema is changed by one process at a time: the key of a lock that goes with its connection.
_LOCK = 0x6B65_6570_7363_6865
_LOOK_SECONDS = 0.2

_OLDEST = """
SELECT pid, application_name, coalesce(state, '-'), floor(extract(epoch FROM clock_timestamp() - xact_start))::int
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
ORDER BY xact_start LIMIT 5
"""


class Impatient(Exception):
    """The schema stands between two migrations: what was applied stays, the next one was not begun. Nothing is broken."""


class Patience:
    """How long may still be waited, from now on. Seconds."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._until - time.monotonic())


@contextmanager
def alone(connection: BaseDatabaseWrapper, patience: Patience) -> Iterator[None]:
    """Hold the schema's lock. It is looked for, not waited for: who waits has a snapshot, for which a concurrent index would wait.

    Raises Impatient.
    """
    while not _asked(connection, "SELECT pg_try_advisory_lock(%s)", _LOCK):
        if not patience.left:
            raise Impatient(f"Another process changes the schema, still after {patience.seconds:.0f} s. Nothing was applied here.")
        time.sleep(_LOOK_SECONDS)
    try:
        yield
    finally:
        if connection.is_usable():  # else the lock went with the connection
            _asked(connection, "SELECT pg_advisory_unlock(%s)", _LOCK)


def until_done(connection: BaseDatabaseWrapper, do: Callable[[], object], patience: Patience, say: Callable[[str], None]) -> None:
    """Do it again as long as locks are in its way. Prerequisite: what has been done is not done twice. Raises Impatient."""
    pause = FIRST_PAUSE
    while True:
        try:
            do()
            return
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) not in _IN_THE_WAY:
                raise
            if patience.left <= pause:
                raise Impatient(_gave_up(connection, patience)) from error
            say(f"its tables are in use; others go first, next try in {pause:.0f} s")
        finally:
            _set_lock_timeout(connection, None)
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def begin(connection: BaseDatabaseWrapper, migration: Migration, patience: Patience) -> None:
    """Before a migration: how long it may wait for a lock; and what an earlier try of a concurrent index has left is removed."""
    if migration.atomic:
        _set_lock_timeout(connection, TRY_MILLISECONDS)
        return
    _set_lock_timeout(connection, 1000 * max(1, int(patience.left)))
    with connection.cursor() as cursor:
        for operation in migration.operations:
            index = getattr(operation, "index", None)
            if index is not None:
                cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {connection.ops.quote_name(index.name)}")


def _set_lock_timeout(connection: BaseDatabaseWrapper, milliseconds: int | None) -> None:
    """None: what the connection began with."""
    if not connection.is_usable():
        return
    with connection.cursor() as cursor:
        cursor.execute("RESET lock_timeout" if milliseconds is None else f"SET lock_timeout = {milliseconds:d}")


def _asked(connection: BaseDatabaseWrapper, question: str, number: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(question, [number])
        return bool(cursor.fetchone()[0])


def _gave_up(connection: BaseDatabaseWrapper, patience: Patience) -> str:
    """Names transactions, not what they do: that is a customer's."""
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST)
        oldest = [f"    process {pid} of {name or 'unnamed'}, {state}, since {age} s" for pid, name, state, age in cursor.fetchall()]
    return "\n".join(
        [
            f"A migration found its tables in use for {patience.seconds:.0f} s and was not applied; those before it were, and stay.",
            "The service goes on with the schema as it is. Run it again, with more --patience, or end what is in the way.",
            "Oldest transactions:",
            *(oldest or ["    (none now)"]),
        ]
    )
