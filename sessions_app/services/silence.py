"""That a server did not answer a moment ago: a process that has met it does without, and asks again after a few seconds.

Whoever hangs on a server which neither answers nor refuses would make every request wait for the same.
"""

import logging
import math
import threading
import time

log = logging.getLogger(__name__)

#: For so long a process does not ask again after the server did not answer, and it says so once in a minute.
SILENT_SECONDS = 5.0
SAID_SECONDS = 60.0


class Silence:
    """Of one server, in one process. `words`: what is not done meanwhile, for the log."""

    def __init__(self, words: str):
        self._words = words
        self._lock = threading.Lock()
        self._until = 0.0
        self._said = -math.inf

    def lasts(self) -> bool:
        """Whether to do without. When its time is over one caller is told to ask, and the others do without until that one knows."""
        if not self._until:
            return False
        with self._lock:
            if time.monotonic() < self._until or not self._until:
                return bool(self._until)
            self._until = time.monotonic() + SILENT_SECONDS
            return False

    def begin(self, error: Exception) -> None:
        now = time.monotonic()
        with self._lock:
            self._until = now + SILENT_SECONDS
            say = now - self._said >= SAID_SECONDS
            self._said = now if say else self._said
        if say:
            log.warning(self._words, extra={"reason": repr(error)})

    def end(self) -> None:
        """It has answered."""
        if self._until:
            with self._lock:
                self._until = 0.0
