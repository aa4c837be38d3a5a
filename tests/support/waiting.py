"""Wait for a fact, never for a time."""

import os
import select
import threading
import time
from collections.abc import Callable

from django.db import connection

POLL_SECONDS = 0.05


def until(fact: Callable[[], object], seconds: float, what: str) -> None:
    """Return once `fact()` is true; fail the test with `what` after so many seconds."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not fact():
        assert time.monotonic() < deadline, f"after {seconds} s still not so: {what}"
        pause.wait(POLL_SECONDS)


def until_gone(pid: int, seconds: float) -> None:
    """Return once the process is dead, as the kernel tells it (a process that is gone already counts)."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], seconds)
        assert ended, f"process {pid} still lives after {seconds} s"
    finally:
        os.close(descriptor)


def waits_for_a_lock() -> bool:
    """Whether some connection to this database waits for a lock of another's transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # what a transaction sees of it stands still
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
        return bool(cursor.fetchone()[0])
