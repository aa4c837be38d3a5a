"""What a host does every few seconds: tell that its doorbells are read, settle its sessions, remove leftovers, bound its cache."""

import fcntl
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from django.db.models.functions import Now

from checkpoints_app.services import storage
from workers.cache import known
from workers.cache.evict import evict
from workers.cache.forgotten import drop_forgotten
from workers.cache.store import evict_packs
from workers.host import claim
from workers.host.identity import host_directory
from workers.host.lazy import end_unused
from workers.operations.leftovers import sweep_leftovers
from workers.operations.settle import settle_host

log = logging.getLogger(__name__)


def observe() -> None:
    """One part that fails never keeps the others from being done, and one observation at a time is enough for a host: a machine whose
    monitor is silent takes seconds to look at, and the next doorbell does not wait for that.
    """
    host_directory().mkdir(parents=True, exist_ok=True)
    if not claim.mine().update(observed_at=Now(), **_disk()):
        log.error("this host's id is another installation's, or retired: nothing was looked after")  # its machines are not ours to judge
        return
    with _alone() as alone:
        parts = (settle_host, sweep_leftovers, end_unused, drop_forgotten, evict, evict_packs, known.compare, storage.remove_abandoned)
        for part in parts if alone else ():
            try:
                part()
            except Exception:
                log.exception("a part of the observation failed", extra={"part": part.__name__})


def _disk() -> dict[str, int]:
    """Where the machines' files, saves under way and the cache lie: a full one ends every save."""
    found = shutil.disk_usage(host_directory())
    return {"disk_bytes": found.total, "disk_free_bytes": found.free}


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether no other observation of this host is under way. The kernel frees the lock of a worker that dies."""
    with open(host_directory() / "observe.lock", "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
