"""Digests of installed files, which are hashed once and not at each start of a machine."""

import hashlib
import os
from functools import lru_cache
from pathlib import Path

FileVersion = tuple[int, int, int]


def file_version(path: Path) -> FileVersion:
    """Modification time, size and inode: equal, and the file has not been replaced."""
    stat = os.stat(path)
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def file_sha256(path: Path) -> str:
    """Remembered in this process while the file's version stays as it is. Raises OSError."""
    return _sha256(path, file_version(path))


@lru_cache(maxsize=64)
def _sha256(path: Path, _version: FileVersion) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
