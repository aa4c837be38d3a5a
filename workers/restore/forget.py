"""Assembled images leave this host with the checkpoints that they are of: a machine's memory and its disk, in the clear.

Only a cache is touched: an image that is needed again is assembled again.
"""

import time
from collections.abc import Mapping

from checkpoints_app.models import Checkpoint
from checkpoints_app.states import CheckpointState
from sessions_app.models import Session
from workers.cache import files as cache
from workers.cache.evict import SPARED_SECONDS, drop_unless_locked, images, in_use
from workers.restore.images import names_of, disk_root

_KEPT = (CheckpointState.PUBLISHED, CheckpointState.CORRUPT)
_COLUMNS: Mapping[str, str] = {cache.MEMORY: "memory_root", cache.DISK: "disk_root", cache.DEVICES: "content_digest"}


def forget_images(session: Session) -> None:
    """Remove what this host has of the session's checkpoints. What another machine of this host was started from stays."""
    kept = in_use()
    for checkpoint in session.checkpoints.exclude(content_digest=""):
        for kind, name in names_of(checkpoint).items():
            if name not in kept:
                cache.drop(kind, name)


def forget_erased() -> int:
    """Remove what no checkpoint has any more, whichever host erased it: it would lie here until the cache is full. Returns how many.

    What a machine of this host was started from stays until that ends; what was used a moment ago may be of a save on its way.
    """
    kept, newest, forgotten = in_use(), time.time() - SPARED_SECONDS, 0
    for kind, column in _COLUMNS.items():
        found = {image.path: image.path.name for image in images(kind) if image.used_at < newest and image.path.name not in kept}
        roots = {path: disk_root(name) if kind == cache.DISK else name for path, name in found.items()}
        known = Checkpoint.objects.filter(**{f"{column}__in": set(roots.values())}, state__in=_KEPT)
        needed = set(known.values_list(column, flat=True))
        forgotten += sum(drop_unless_locked(path) for path, root in roots.items() if root not in needed)
    return forgotten
