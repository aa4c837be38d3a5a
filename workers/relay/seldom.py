"""What anybody on the network can make happen, told in few lines of log."""

import logging
import time

EVERY_SECONDS = 10.0


class Seldom:
    """One warning in ten seconds at most, with the address that caused it and how often it has happened since the last one."""

    def __init__(self, log: logging.Logger, words: str):
        self._log, self._words = log, words
        self._count = 0
        self._quiet_until = 0.0

    def happened(self, address: str) -> None:
        self._count += 1
        now = time.monotonic()
        if now < self._quiet_until:
            return
        self._log.warning(self._words, extra={"peer": address, "times": self._count})
        self._count, self._quiet_until = 0, now + EVERY_SECONDS
