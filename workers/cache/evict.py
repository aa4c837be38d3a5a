"""Keep the host cache within its bound: least recently used first, never what a machine of this host was started from."""

import fcntl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from workers.cache import files
from workers.host.identity import cache_directory, machines_directory
from workers.host.note import read_note

#: Longer than a start takes from the check of its images until its machine's note names them.
SPARED_SECONDS = 300


def evict() -> int:
    """Bytes freed. Safe beside other workers: an image that another is assembling is locked and left alone.

    What was used a moment ago may be on its way into a machine that has no note yet: it stays, even if the cache is above its bound then.
    """
    sweep_temporary()
    used, newest = in_use(), time.time() - SPARED_SECONDS
    oldest_first = sorted(
        (found for kind in (files.MEMORY, files.DISK, files.DEVICES) for found in images(kind)), key=lambda found: found.used_at
    )
    excess = sum(found.allocated for found in oldest_first) - (settings.KEEPSTATE_CACHE_GIB << 30)
    freed = 0
    for found in oldest_first:
        if freed >= excess:
            break
        if found.path.name not in used and found.used_at < newest and drop_unless_locked(found.path):
            freed += found.allocated
    return freed


def sweep_temporary() -> None:
    """Remove half-made images of workers that are gone."""
    for path in cache_directory().glob("*/tmp-*"):
        pid = path.name.split("-")[1]
        if not Path(f"/proc/{pid}").exists():
            path.unlink(missing_ok=True)


def in_use() -> set[str]:
    """Names of the images that machines of this host were started from."""
    notes = (read_note(runtime) for runtime in machines_directory().glob("*"))
    return {str(value) for note in notes for value in note.get("images", [])}


@dataclass(frozen=True)
class Image:
    path: Path
    used_at: float
    allocated: int


def images(kind: str) -> Iterator[Image]:
    """The finished ones of this host."""
    for path in (cache_directory() / kind).glob("*"):
        if path.suffix == "" and not path.name.startswith("tmp-"):
            try:
                found = path.stat()
            except FileNotFoundError:
                continue  # another worker dropped it just now
            yield Image(path, found.st_mtime, found.st_blocks * 512)


def drop_unless_locked(path: Path) -> bool:
    """False for an image that somebody is making."""
    kind = path.parent.name
    with open(files.lock_file(kind, path.name), "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        files.drop(kind, path.name)
    return True
