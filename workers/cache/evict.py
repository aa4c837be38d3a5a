"""Keep the host cache within its bound: least recently used first, never what a machine of this host was started from."""

import fcntl
import logging
import os
from pathlib import Path

from django.conf import settings

from workers.cache import files
from workers.host.identity import cache_directory, machines_directory
from workers.host.note import read_note

log = logging.getLogger(__name__)


def evict() -> int:
    """Bytes freed. Safe beside other workers: an image that another is assembling is locked and left alone."""
    sweep_temporary()
    used = _in_use()
    images = sorted(
        (path for kind in (files.MEMORY, files.DISK, files.DEVICES) for path in _images(kind)), key=lambda path: path.stat().st_mtime
    )
    total = sum(_allocated(path) for path in images)
    bound, freed = settings.KEEPSTATE_CACHE_GIB << 30, 0
    for path in images:
        if total - freed <= bound:
            break
        if path.name not in used and _free(path):
            size = _allocated(path)
            files.drop(path.parent.name, path.name)
            freed += size
    return freed


def sweep_temporary() -> None:
    """Remove half-made images of workers that are gone."""
    for path in cache_directory().glob("*/tmp-*"):
        pid = path.name.split("-")[1]
        if not Path(f"/proc/{pid}").exists():
            path.unlink(missing_ok=True)


def _images(kind: str) -> list[Path]:
    directory = cache_directory() / kind
    return [path for path in directory.glob("*") if path.suffix == "" and not path.name.startswith("tmp-")] if directory.exists() else []


def _in_use() -> set[str]:
    notes = (read_note(runtime) for runtime in machines_directory().glob("*"))
    return {str(value) for note in notes for value in note.get("images", [])}


def _allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


def _free(path: Path) -> bool:
    with open(path.with_name(path.name + ".lock"), "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return os.path.exists(path)
