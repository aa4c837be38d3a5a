"""Threads that compress, seal and read beside one that hashes."""

import sys
from concurrent.futures import ThreadPoolExecutor

SWITCH_SECONDS = 0.0005


def thread_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """A pool whose threads get the interpreter's lock soon, in this process from now on.

    Hashing a unit does not let go of that lock, so a loop over units keeps it for a whole switch interval: 5 ms by default, in which
    a thread that has compressed a frame in a quarter of a millisecond only waits.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
    return ThreadPoolExecutor(threads, name)
