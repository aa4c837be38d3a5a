"""Waiting for an operation's end, for callers who want the outcome in one answer."""

import threading
import time

from sessions_app.models import Operation
from sessions_app.services.database import give_back_connection
from sessions_app.states import OPERATION_ACTIVE

#: Pauses between two looks: short at first, for a resume takes a fraction of a second.
QUICK, SLOW = 0.02, 0.05
QUICK_SECONDS = 2.0
#: Callers of one process that may wait at once; one more gets the operation as it is. Each costs some twenty short reads a second.
WAITERS = 32
_places = threading.BoundedSemaphore(WAITERS)


def until_ended(operation: Operation, seconds: float) -> Operation:
    """The operation once it has ended, or as it is after that time. Neither a transaction nor a pooled connection is held between looks."""
    if not _places.acquire(blocking=False):
        return operation
    try:
        began = time.monotonic()
        while operation.state in OPERATION_ACTIVE and (waited := time.monotonic() - began) < seconds:
            give_back_connection()
            time.sleep(QUICK if waited < QUICK_SECONDS else SLOW)
            operation.refresh_from_db()
        return operation
    finally:
        _places.release()
