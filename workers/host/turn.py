"""Whose turn it is with a session's machines and files on this host: any number of operations, or one that clears them away.

A deletion fences the work that it overtakes, but a worker that was in the middle of a step finds out only at the next one. Whoever removes
a session's directories waits here for that, so that nothing is removed from under a machine that is starting, and nothing written after.
The locks are the kernel's, on bytes of one file (`<host>/turns`, a byte for each session), and go with the process that held them.
"""

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workers.host.identity import host_directory

#: Longest wait for the work of others; what holds on longer is fenced all the same.
WAIT_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_NAME = "turns"


@contextmanager
def joined(session_id: str) -> Iterator[bool]:
    """Work on the session, beside others. Yields False, at once, where somebody clears it away: then nothing may be begun."""
    with _file() as fd:
        yield _lock(fd, fcntl.F_RDLCK, session_id)


@contextmanager
def alone(session_id: str, *, wait_seconds: float, meanwhile: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Clear the session away. Yields whether nobody else is at work on it; `meanwhile` is called between the looks, and may raise."""
    deadline = time.monotonic() + wait_seconds
    with _file() as fd:
        while not (mine := _lock(fd, fcntl.F_WRLCK, session_id)) and time.monotonic() < deadline:
            meanwhile()
            time.sleep(_LOOK_SECONDS)
        yield mine


@contextmanager
def _file() -> Iterator[int]:
    host_directory().mkdir(parents=True, exist_ok=True)
    fd = os.open(host_directory() / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _lock(fd: int, kind: int, session_id: str) -> bool:
    """Of this open file alone, whichever thread or process has it. Ids that begin alike in 60 bits share a byte and wait for each other."""
    wanted = struct.pack("@hhqqi", kind, os.SEEK_SET, int(session_id[:15], 16), 1, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, wanted)
    except (BlockingIOError, PermissionError):
        return False
    return True
