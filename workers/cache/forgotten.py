"""What is not needed any more leaves this host: images of checkpoints that were erased, wherever that was, for they are in the clear, and
of those that are no session's newest, for an agent that is saved often would fill the disk with them; records of resumes.

An image that goes and is wanted after all is assembled again from the store.
"""

import logging
import time
from pathlib import Path

from django.db.models import F

from checkpoints_app.models import Checkpoint
from checkpoints_app.states import CheckpointState
from workers.cache import files
from workers.cache.evict import SPARED_SECONDS, drop_unless_locked, in_use
from workers.host.identity import cache_directory

log = logging.getLogger(__name__)

#: How long an image may outlive an erasure that another host carried out, while this one runs. Each look walks all checkpoints.
EVERY_SECONDS = 600
TOUCHED = "touched"
_GONE = (CheckpointState.ERASING, CheckpointState.ERASED, CheckpointState.FAILED)
_COLUMNS = {files.MEMORY: "memory_root", files.DISK: "disk_root", files.DEVICES: "content_digest", TOUCHED: "id"}


def drop_forgotten() -> int:
    """Returns how many files went. Not what a machine was started from, nor what is young: a save's image is here before its row is."""
    if not _due():
        return 0
    used, old, dropped = in_use(), time.time() - SPARED_SECONDS, 0
    for kind, column in _COLUMNS.items():
        found = (path for path in (cache_directory() / kind).glob("*") if _judged(path, old, used))
        named = {path: path.name.partition("-")[0] for path in found}
        kept = Checkpoint.objects.exclude(state__in=_GONE).filter(**{f"{column}__in": sorted(set(named.values()))})
        if kind != TOUCHED:  # the few pages that a resume of an older one will want are worth their kilobytes
            kept = kept.filter(session__head_checkpoint_id=F("id"))
        known = set(kept.values_list(column, flat=True))
        for path, name in named.items():
            if name not in known and drop_unless_locked(path):
                dropped += 1
                log.info("an image that is not needed left this host", extra={"kind": kind, "image": path.name})
    return dropped


def _judged(path: Path, old: float, used: set[str]) -> bool:
    if path.suffix or path.name.startswith("tmp-") or path.name in used:
        return False
    try:
        return path.stat().st_mtime < old
    except FileNotFoundError:
        return False


def _due() -> bool:
    """The mark's age is the clock, so that a host that was off for long looks first of all."""
    mark = cache_directory() / "compared"
    if not mark.parent.exists():
        return False
    try:
        if time.time() - mark.stat().st_mtime < EVERY_SECONDS:
            return False
    except FileNotFoundError:
        pass
    mark.touch()
    return True
