"""The file operations that decide what survives a power loss, each named once, with errors made typed.

Order of an object's birth: write under a name that nobody reads, sync its bytes, link it to its final name (which fails if that
is taken, unlike rename), sync the directory and every directory above it. Only then may anything refer to it.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .backend import Chunk
from .errors import MissingObjectError, NoSpaceError, ObjectExistsError, PermissionDeniedError, StoreError, UnavailableError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def typed_errors(key: str) -> Iterator[None]:
    """OSError of the block as the store's own error about `key`."""
    try:
        yield
    except OSError as error:
        raise _typed(error, key) from error


def _typed(error: OSError, key: str) -> StoreError:
    if isinstance(error, FileNotFoundError):
        return MissingObjectError(key)
    if isinstance(error, FileExistsError):
        return ObjectExistsError(key)
    detail = f"{key}: {os.strerror(error.errno or errno.EIO)}"
    if error.errno in _NO_SPACE:
        return NoSpaceError(f"{detail}. It was not stored; free space, then retry.")
    if error.errno in _FORBIDDEN:
        return PermissionDeniedError(f"{detail}. Check the owner and mode of the store's directory.")
    return UnavailableError(f"{detail}. Check the disk, then retry.")


def write_file(path: Path, chunks: Iterable[Chunk]) -> int:
    """A new file, mode 0600, not yet durable. On failure no file is left."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    written = 0
    try:
        with open(descriptor, "wb", buffering=1 << 20) as file:
            for chunk in chunks:
                written += file.write(chunk)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return written


def sync_file(path: Path) -> None:
    """fsync of a file's bytes, or of a directory's names."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directories(directories: Iterable[Path], root: Path) -> None:
    """The names in these directories and in all above them up to `root`, each once, lowest first.

    Those above are synced even if they are old: whoever made them may have died before its own sync.
    """
    wanted: set[Path] = set()
    for lowest in directories:
        above = [lowest, *lowest.parents]
        wanted.update(above[: above.index(root) + 1])
    for directory in sorted(wanted, key=lambda path: len(path.parts), reverse=True):
        sync_file(directory)
