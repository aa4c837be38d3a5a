"""A process that stands still for a while: it is there, and answers nothing."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
