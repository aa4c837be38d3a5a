"""Named pipes between a machine's process and its host.

What a guest prints byte by byte fills a socket's buffer long before it is as many bytes as the buffer has (each message is accounted with
its own overhead); a pipe packs them.
"""

import array
import fcntl
import mmap
import os
import stat
import termios
from pathlib import Path

from workers.machine.process.uids import give

#: So much of each page may be left free: the kernel does not split what is written at once, and a guest's console writes 16 bytes.
SLACK_BYTES = 16


def make(runtime: Path, name: str) -> None:
    """`NAME.in` and `NAME.out`, the machine's own. Raises OSError."""
    for path in (runtime / f"{name}.in", runtime / f"{name}.out"):
        os.mkfifo(path, 0o600)
        give(path)


def opened(runtime: Path, name: str, way: int) -> int:
    """Never waits: for writing it is an error that nobody reads. Raises OSError."""
    fd = os.open(runtime / name, way | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{name} is no named pipe")
    return fd


def widened(fd: int, wanted: int) -> int:
    """Make it hold so much, if this process may, and return how much it holds."""
    try:
        return fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, wanted)
    except PermissionError:  # the user's pipes hold too much already, or the system allows less
        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)


def pending(fd: int) -> int:
    """Bytes that were written and not read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


def is_full(fd: int, room: int) -> bool:
    """Whether more may have been written than it holds. The page that is being read counts as whole, whatever is left of it."""
    pages = room // mmap.PAGESIZE
    return pending(fd) > (pages - 1) * (mmap.PAGESIZE - SLACK_BYTES)


def emptied(runtime: Path, name: str) -> int:
    """Take back what was not read, and return how many bytes it was. Raises OSError."""
    fd, taken = opened(runtime, name, os.O_RDONLY), 0
    try:
        while data := os.read(fd, mmap.PAGESIZE):
            taken += len(data)
    except BlockingIOError:
        pass  # it is empty
    finally:
        os.close(fd)
    return taken
