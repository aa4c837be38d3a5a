"""Packs of a store that is elsewhere, kept on this host: `<directory>/<object key>`, whole, as they lie in the store and no less sealed.

A kept pack is not trusted more than the store: who reads it opens and hashes every unit as ever. What is refused is dropped and asked of
the store once more (`distrust`) before anything is judged. Files are not synced: one that a power loss cut is found out by its reader.
Framework-free, for the worker and for the process that serves a lazy image.
"""

import fcntl
import logging
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from checkpoints_app.store.backends import Backend
from checkpoints_app.store.backends.backend import Chunk, Head
from checkpoints_app.store.names import parse_key

log = logging.getLogger(__name__)

TEMPORARY = "tmp-"


class PackCache:
    """Any number of threads and processes may use one directory."""

    def __init__(self, directory: Path):
        self.directory = directory

    def holds(self, key: str) -> bool:
        return self._path(key).exists()

    def read(self, key: str, offset: int, length: int) -> bytes | None:
        """That range, or None if the pack is not here."""
        try:
            fd = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return os.pread(fd, length, offset)
        finally:
            os.close(fd)

    def head(self, key: str, max_bytes: int) -> Head | None:
        """The first bytes and the size, or None. Marks the pack as used: every restore begins with it."""
        path = self._path(key)
        try:
            with open(path, "rb", buffering=0) as file:
                os.utime(path)
                return Head(file.read(max_bytes), os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            return None

    def fill(self, key: str, source: Backend) -> bool:
        """Fetch the whole pack if it is not here; whether it is now. One of all who ask fetches it, the others wait.

        False where this host has no room for it. Raises the errors of `source.stream`.
        """
        with self._single_flight(key):
            return self.holds(key) or self.keep(key, source.stream(key))

    def keep(self, key: str, chunks: Iterable[Chunk]) -> bool:
        """Take a whole pack in, atomically. False, and nothing is left of it, where the file system refuses."""
        path = self._path(key)
        made = path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb", buffering=0) as file:
                for chunk in chunks:
                    _write(file.fileno(), chunk)
            os.replace(made, path)
            return True
        except OSError:
            log.warning("a pack was not kept on this host", extra={"key": key}, exc_info=True)
            return False
        finally:
            made.unlink(missing_ok=True)

    def drop(self, key: str) -> bool:
        """Forget a pack; whether it was here. A reader in the middle of it keeps its bytes until it is done."""
        try:
            self._path(key).unlink()
        except FileNotFoundError:
            return False
        return True

    def kept(self) -> Iterator[str]:
        """The keys of all that is here."""
        for path in self.directory.rglob("*"):
            key = str(path.relative_to(self.directory))
            if is_pack(key) and path.is_file():
                yield key

    def age_seconds(self, key: str) -> float:
        """Since it was last used; 0 if it is not here."""
        try:
            return time.time() - self._path(key).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def _path(self, key: str) -> Path:
        return self.directory / key

    @contextmanager
    def _single_flight(self, key: str) -> Iterator[None]:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self.directory / f"{key.rpartition('/')[2][:2]}.lock", "w") as lock:  # 256 files, never removed
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def is_pack(key: str) -> bool:
    name = parse_key(key)
    return name is not None and name.word == "pack"


def sweep_temporary(directory: Path) -> None:
    """Remove what processes left that died while they took a pack in."""
    for path in directory.rglob(f"{TEMPORARY}*"):
        if not Path(f"/proc/{path.name.split('-')[1]}").exists():
            with suppress(OSError):
                path.unlink()


def _write(fd: int, chunk: Chunk) -> None:
    view = memoryview(chunk).cast("B")
    while view:
        view = view[os.write(fd, view) :]
