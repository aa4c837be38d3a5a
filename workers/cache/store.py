"""The checkpoint store as this host's work reads and writes it: with its packs kept here, where the store is not on this host anyway."""

import logging
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.storage import storages

from checkpoints_app.models import Pack
from checkpoints_app.services import storage, storage_s3
from checkpoints_app.store import Backend, Kind, LocalBackend, object_key
from checkpoints_app.store.names import parse_key
from workers.cache.caching import CachingBackend
from workers.cache.packs import PackCache, sweep_temporary
from workers.host.identity import host_directory

log = logging.getLogger(__name__)

#: How often the packs here are compared with the database: an erasure on another host is followed within that time, while this one runs.
COMPARED_EVERY_SECONDS = 60
#: A pack this young may be of a save that is not published yet: no row names it, and it is needed soon.
SPARED_SECONDS = 120
_BATCH = 1000


def packs_directory() -> Path:
    return host_directory() / "packs"


def backend() -> Backend:
    """StoreError as `storage.backend`."""
    store = storage.backend()
    return store if isinstance(store, LocalBackend) else CachingBackend(store, PackCache(packs_directory()))


def where() -> dict[str, Any]:
    """What another process must be told to read as `backend()` does (workers/lazy/where.py). Holds credentials: not to be written down."""
    store = storage.backend()
    if isinstance(store, LocalBackend):
        return {"kind": "local", "root": str(store.root)}
    place = storage_s3.place_of(storages["checkpoints"])
    credentials = asdict(place.credentials) if place.credentials else _found_by_boto3()
    return {
        "kind": "cached",
        "directory": str(packs_directory()),
        "store": {"kind": "s3", "place": {**asdict(place), "credentials": credentials}},
    }


def _found_by_boto3() -> dict[str, Any] | None:
    """Credentials of this process's environment, profile or instance role, as they are now: another process may not find them."""
    import boto3

    found = boto3.Session().get_credentials()
    if found is None:
        return None
    now = found.get_frozen_credentials()
    return {"access_key": now.access_key, "secret_key": now.secret_key, "session_token": now.token}


def forget_pack(key: str) -> None:
    """An object was deleted from the store by a process of this host."""
    PackCache(packs_directory()).drop(key)


def evict_packs() -> int:
    """Bytes freed: least recently used first, until the packs are within their bound. A reader that misses one asks the store."""
    directory = packs_directory()
    sweep_temporary(directory)
    if _compare_now(directory):
        _drop_erased(PackCache(directory))
    found = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in _files(directory)), key=lambda one: one[0])
    excess, freed = sum(size for _, size, _ in found) - (settings.KEEPSTATE_PACK_CACHE_GIB << 30), 0
    for _, size, path in found:
        if freed >= excess:
            break
        path.unlink(missing_ok=True)
        freed += size
    return freed


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.glob("accounts/*/packs/*") if path.is_file() and not path.name.startswith("tmp-")]


def _compare_now(directory: Path) -> bool:
    """Whether it is time; the mark's age is the clock, so that a host that was off for long compares first of all."""
    mark = directory / "compared"
    try:
        if time.time() - mark.stat().st_mtime < COMPARED_EVERY_SECONDS:
            return False
    except FileNotFoundError:
        if not directory.exists():
            return False
    mark.touch()
    return True


def _drop_erased(kept: PackCache) -> None:
    """Packs that no row names at this generation: erased, rewritten without what was erased, or of a save that failed."""
    names = [name for key in kept.kept() if (name := parse_key(key)) and kept.age_seconds(key) > SPARED_SECONDS]
    for start in range(0, len(names), _BATCH):
        part = names[start : start + _BATCH]
        known = dict(Pack.objects.filter(id__in=[name.object_id for name in part]).values_list("id", "generation"))
        for name in part:
            if known.get(name.object_id) != name.generation:
                key = object_key(name.account_id, Kind.PACK, name.object_id, name.generation)
                kept.drop(key)
                log.info("a pack that is not in the store any more left this host", extra={"key": key})
