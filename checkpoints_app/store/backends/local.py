"""Objects as files of one directory: ROOT/objects/<key's segments>/<first two letters of the last>/<last>.

ROOT is one file system (names are hard links), used by one user: files 0600, directories 0700. Unfinished batches lie in
ROOT/staging, each in a directory that its process holds locked, so that what a dead process left can be told and removed.
"""

import fcntl
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from .backend import Batch, Chunk, Head, Listed, Step, check_key, no_step
from .durable import sync_directories, sync_file, typed_errors, write_file

_MODE = 0o700


class LocalBatch:
    """See `Batch`. Nothing is visible before `publish`.

    Each file is synced by a thread beside the work as soon as it is written. One syncfs for all was measured too: it comes last instead of
    beside, and waits for whatever other processes have not written yet.
    """

    def __init__(self, root: Path, step: Step):
        self._root, self._step = root, step
        self._lock = threading.Lock()
        self._staged: dict[str, Path] = {}
        self._syncing: list[Future[None]] = []
        self._syncer = ThreadPoolExecutor(1, "sync")
        self._number = 0
        self._directory = root / "staging" / secrets.token_hex(16)
        with typed_errors("staging"), _locked(root / "staging", fcntl.LOCK_SH):
            self._directory.mkdir(mode=_MODE)
            self._alive = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._alive, fcntl.LOCK_EX)

    def put(self, key: str, chunks: Iterable[Chunk]) -> int:
        check_key(key)
        with self._lock:
            self._number += 1
            path = self._directory / str(self._number)
        with typed_errors(key):
            written = write_file(path, chunks)
        with self._lock:
            if key in self._staged:
                raise ValueError(f"{key} is in this batch already")
            self._staged[key] = path
            self._syncing.append(self._syncer.submit(sync_file, path))
        self._step("object_staged")
        return written

    def publish(self) -> None:
        try:
            with typed_errors("staging"):
                for syncing in self._syncing:
                    syncing.result()
            self._step("objects_synced")
            finals = {key: path_of(self._root, key) for key in self._staged}
            for key, staged in self._staged.items():
                with typed_errors(key):
                    _make_directories(finals[key].parent, self._root)
                    os.link(staged, finals[key])
                self._step("object_named")
            with typed_errors("objects"):
                sync_directories({path.parent for path in finals.values()}, self._root)
            self._step("objects_durable")
        finally:
            self.discard()

    def discard(self) -> None:
        with self._lock:
            if self._alive >= 0:
                self._syncer.shutdown(cancel_futures=True)
                shutil.rmtree(self._directory, ignore_errors=True)  # what stays is removed by `remove_abandoned`
                os.close(self._alive)
                self._alive = -1


class LocalBackend:
    """See `Backend`. Prerequisite: `root` is a directory of this service alone; it is made if it does not exist."""

    def __init__(self, root: Path | str):
        self.root = Path(root)
        with typed_errors(str(root)):
            missing = [path for path in (self.root, *self.root.parents) if not path.exists()]
            self.root.mkdir(mode=_MODE, parents=True, exist_ok=True)
            for name in ("objects", "staging"):
                (self.root / name).mkdir(mode=_MODE, exist_ok=True)
            for path in missing:
                sync_file(path.parent)  # or a power loss could take the whole store away

    def batch(self, step: Step = no_step) -> Batch:
        return LocalBatch(self.root, step)

    def put_if_absent(self, key: str, chunks: Iterable[Chunk]) -> int:
        batch = self.batch()
        try:
            written = batch.put(key, chunks)
            batch.publish()
        finally:
            batch.discard()
        return written

    def head(self, key: str, max_bytes: int) -> Head:
        with typed_errors(key), open(path_of(self.root, key), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            return Head(_read_exactly(file.fileno(), 0, min(max_bytes, size)), size)

    def read(self, key: str, offset: int, length: int) -> bytes:
        with typed_errors(key), open(path_of(self.root, key), "rb", buffering=0) as file:
            return _read_exactly(file.fileno(), offset, length)

    def stream(self, key: str, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        with typed_errors(key), open(path_of(self.root, key), "rb", buffering=0) as file:
            while chunk := file.read(chunk_bytes):
                yield chunk

    def size(self, key: str) -> int:
        with typed_errors(key):
            return path_of(self.root, key).stat().st_size

    def list(self, prefix: str) -> Iterator[Listed]:
        if prefix:
            check_key(prefix[:-1] if prefix.endswith("/") else "")
        top = self.root / "objects" / prefix
        with typed_errors(f"listing of {prefix or 'everything'}"):
            if top.exists() or not prefix:
                yield from _walk(top, prefix)

    def delete(self, key: str) -> bool:
        path = path_of(self.root, key)
        with typed_errors(key):
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            sync_file(path.parent)
        return True

    def remove_abandoned(self) -> int:
        """Remove what batches of dead processes left in staging; returns how many. Live batches are not touched."""
        removed = 0
        staging = self.root / "staging"
        with typed_errors("staging"), _locked(staging, fcntl.LOCK_EX):  # no batch is between its directory and its lock
            for entry in os.scandir(staging):
                removed += _remove_if_abandoned(Path(entry.path))
        return removed


def _make_directories(directory: Path, root: Path) -> None:
    """`directory` and what is missing between it and `root`, each with our mode (`parents=True` would use the default one)."""
    if directory != root and not directory.is_dir():
        _make_directories(directory.parent, root)
        directory.mkdir(mode=_MODE, exist_ok=True)


def path_of(root: Path, key: str) -> Path:
    *directories, name = check_key(key).split("/")
    return root.joinpath("objects", *directories, name[:2], name)


def _walk(directory: Path, prefix: str) -> Iterator[Listed]:
    """Files below, wherever the directory between is a shard of theirs; other files are not ours and are left out."""
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
            continue
        try:
            info = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # deleted meanwhile
        shard = f"{entry.name[:2]}/"
        if stat.S_ISREG(info.st_mode) and prefix.endswith(shard):
            yield Listed(prefix.removesuffix(shard) + entry.name, info.st_size)


@contextmanager
def _locked(directory: Path, how: int) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _remove_if_abandoned(directory: Path) -> bool:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory)
        return True
    except (BlockingIOError, FileNotFoundError):
        return False
    finally:
        os.close(descriptor)


def _read_exactly(descriptor: int, offset: int, length: int) -> bytes:
    """The range, shorter only at the file's end (one pread may return less than asked for)."""
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(descriptor, min(length, 1 << 30), offset)):
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
