"""Unprivileged user ids for machines: one for each that lives, taken from a range of the host.

An id is taken by an flock that the machine's process inherits, as its alive-lock is: the kernel frees it with the process, so no id is ever
lost and no two live machines have the same one, whichever installations of this host they belong to. Its group has the same number.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path


class NoneFree(Exception):
    """Every id of the range belongs to a live machine."""


@dataclass(frozen=True)
class TakenId:
    uid: int
    lock_fd: int  # inherited by the machine; whoever took it closes his own copy

    def close(self) -> None:
        os.close(self.lock_fd)


def take(first: int, count: int, directory: Path) -> TakenId:
    """The lowest id that nobody has. Raises NoneFree, OSError. `directory` is the host's own, writable by root alone."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for uid in range(first, first + count):
        fd = os.open(directory / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            continue
        return TakenId(uid, fd)
    raise NoneFree(f"all {count} user ids from {first} on belong to live machines")


def give(path: Path) -> None:
    """A file that was made for a machine in its directory becomes the machine's, as far as it has a user of its own.

    The directory's group says whose it is; the directory itself stays root's, so that a machine can neither make nor replace a name in it.
    """
    owner = path.parent.stat().st_gid
    if os.geteuid() == 0 and owner != 0:
        os.chown(path, owner, owner, follow_symlinks=False)
