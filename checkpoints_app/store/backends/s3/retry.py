"""How often and how long a request is tried, and what it ends in."""

import random
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from ..errors import UnavailableError
from .answers import FAILURES, NotBelievedError, judge

T = TypeVar("T")
_random = random.SystemRandom()

#: While `attempt` runs its action for the first time.
FIRST_ATTEMPT = ContextVar("FIRST_ATTEMPT", default=False)


@dataclass(frozen=True)
class Patience:
    """At most `attempts`, none begun later than `seconds` after the first. Before each, a pause of half to all of a time that doubles. A
    server that refuses at once is asked again until the time is over, not the attempts: it is being restarted.

    A body, sent or received, may take `body_seconds` in all and what it needs at `slowest` bytes per second; then the attempt has failed.
    """

    attempts: int = 40
    seconds: float = 90
    body_seconds: float = 60
    slowest: int = 128 << 10
    first_pause: float = 0.2
    longest_pause: float = 5
    wait: Callable[[float], None] = time.sleep

    def deadline(self, body_bytes: int) -> "Deadline":
        return Deadline(self.body_seconds + body_bytes / self.slowest)

    def pause(self, attempt: int) -> float:
        full = min(self.longest_pause, self.first_pause * 2 ** (attempt - 1))
        return _random.uniform(full / 2, full)  # so that many who were refused at once do not come back at once


#: Where many wait behind the one who asks: a request, or a sweep on a queue that others need.
BRIEF = Patience(seconds=15)


class Deadline:
    """A time limit for something that goes on piece by piece."""

    def __init__(self, seconds: float):
        self._seconds, self._end = seconds, time.monotonic() + seconds

    def check(self) -> None:
        """Raises NotBelievedError when it is over."""
        if time.monotonic() > self._end:
            raise NotBelievedError(f"a body took longer than {self._seconds:.0f} s in all")


def attempt(patience: Patience, key: str, action: Callable[[], T], broken: Callable[[], None] = lambda: None) -> T:
    """What `action` returns. It makes one or few requests and may be run again after any failure, whose outcome is then unknown.

    `broken` is called after each attempt that a connection did not bring to an end.

    Raises a StoreError about `key`: what the server said if asking again is of no use, else UnavailableError when patience ends. A
    StoreError that `action` itself raises passes through.
    """
    begun = time.monotonic()
    for number in range(1, patience.attempts + 1):
        first = FIRST_ATTEMPT.set(number == 1)
        try:
            return action()
        except FAILURES as error:
            verdict = judge(error, key)
            if verdict.broken:
                broken()
            if not verdict.again:
                raise verdict.error from error
            pause = patience.pause(number)
            waited = time.monotonic() - begun
            if number == patience.attempts or waited + pause > patience.seconds:
                tried = f"tried {number} times in {waited:.1f} s. Whether the last attempt took effect is unknown; retry later."
                raise UnavailableError(f"{verdict.error}; {tried}") from error
        finally:
            FIRST_ATTEMPT.reset(first)
        patience.wait(pause)
    raise ValueError("patience allows no attempt")
