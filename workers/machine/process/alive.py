"""The alive-lock: an flock that a hypervisor process inherits and holds until the kernel closes its files.

A process id can be reused and a file can lie; the kernel frees this lock at the very end of the process and not before.
Whoever holds the lock file's lock is the machine. The lock follows the open file, not the process that took it, so the
spawner takes it, passes the descriptor on and closes its own copy.
"""

import errno
import fcntl
import os
import time
from pathlib import Path

LOCK_NAME = "alive.lock"
ACQUIRE_SECONDS = 1.0  # a concurrent `is_held` takes the lock shared for microseconds
POLL_SECONDS = 0.01


def acquire(runtime: Path) -> int | None:
    """Take the lock of a runtime directory that exists; None if a live process holds it.

    Returns a descriptor that the caller must pass on or close. It is inheritable by nobody until the spawner says so.
    """
    deadline = time.monotonic() + ACQUIRE_SECONDS
    while True:
        fd = os.open(runtime / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _try_lock(fd, fcntl.LOCK_EX) and _is_the_file_at(fd, runtime / LOCK_NAME):
            return fd
        os.close(fd)
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)


def is_held(runtime: Path) -> bool:
    """Whether a process of this runtime directory is alive now. A directory or lock file that is missing holds none."""
    try:
        fd = os.open(runtime / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return not _try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def has_open(pid: int, runtime: Path) -> bool:
    """Whether that process has the lock file open: whoever holds the lock does."""
    try:
        lock = os.stat(runtime / LOCK_NAME)
        for name in os.listdir(f"/proc/{pid}/fd"):
            found = _stat(f"/proc/{pid}/fd/{name}")
            if found is not None and (found.st_dev, found.st_ino) == (lock.st_dev, lock.st_ino):
                return True
    except OSError:
        return False
    return False


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def wait_until_free(runtime: Path, timeout_seconds: float) -> bool:
    """True once the lock is free, False if it is still held after the time."""
    deadline = time.monotonic() + timeout_seconds
    while is_held(runtime):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _is_the_file_at(fd: int, path: Path) -> bool:
    """A directory that was removed and made again between open and flock leaves us a lock on a file nobody else can see."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
