"""Which gateway processes of this host live, and which of them serves: two kinds of locks in `<host directory>/gateway/`.

<name>.life    held by the process of that name until the kernel closes its files: whoever gets its lock knows that it is dead
serving.lock   held by the one that has the doors; a process that drains has let it go, and lives on until its calls have ended
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DIRECTORY_NAME = "gateway"
_LIFE = ".life"


def directory(host_directory: Path) -> Path:
    found = host_directory / DIRECTORY_NAME
    found.mkdir(parents=True, exist_ok=True, mode=0o700)
    return found


@contextmanager
def living(host_directory: Path) -> Iterator[str]:
    """The name of this process, drawn now: whoever looks knows from here on whether it lives. A clean end leaves nothing."""
    name = secrets.token_hex(16)
    path = directory(host_directory) / (name + _LIFE)
    draft = path.with_suffix(".draft")
    with open(draft, "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        draft.rename(path)  # nobody finds it before it is locked
        yield name


def dead(host_directory: Path) -> list[str]:
    """Names of processes that have ended. `forget` each once what it left is cleared up."""
    return [path.stem for path in sorted(directory(host_directory).glob("*" + _LIFE)) if not _held(path)]


def forget(host_directory: Path, name: str) -> None:
    (directory(host_directory) / (name + _LIFE)).unlink(missing_ok=True)


def _held(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return True  # cleared up a moment ago
    return False


class Serving:
    """The host's turn: one process at a time has it."""

    def __init__(self, host_directory: Path):
        self._fd = os.open(directory(host_directory) / "serving.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        os.close(self._fd)
