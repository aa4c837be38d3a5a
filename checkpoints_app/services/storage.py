"""The configured checkpoint store (STORAGES["checkpoints"]) and the deletion of single objects in it."""

import logging
import os
from collections.abc import Iterable, Sequence
from functools import cache

from django.core.files.storage import FileSystemStorage, storages

from checkpoints_app.models import Pack
from checkpoints_app.services import storage_s3
from checkpoints_app.store import (
    Backend,
    BackendError,
    Kind,
    LocalBackend,
    MissingObjectError,
    UnavailableError,
    account_prefix,
    object_key,
)

log = logging.getLogger(__name__)


@cache
def backend() -> Backend:
    """Our own writer over the place that the storage setting names: Django's storage neither syncs nor renames, nor puts only if absent.

    An S3 server is probed before this returns for the first time in a process; StoreError if it does not answer or is unfit, and the next
    call tries again.
    """
    configured = storages["checkpoints"]
    if isinstance(configured, FileSystemStorage):
        return LocalBackend(str(configured.location))
    return storage_s3.backend(configured)


os.register_at_fork(after_in_child=backend.cache_clear)  # connections must not be shared with the parent


def delete_pack(account_id: str, pack_id: str, generation: int = 0) -> None:
    delete_object(object_key(account_id, Kind.PACK, pack_id, generation))


def delete_manifest(account_id: str, manifest_id: str) -> None:
    delete_object(object_key(account_id, Kind.MANIFEST, manifest_id))


def delete_object(key: str) -> bool:
    """At return the object is gone, and a look confirmed it. False if it was not there. BackendError: it may or may not be there."""
    was_there = backend().delete(key)
    if exists(key):
        raise UnavailableError(f"object {key} is still there after its deletion. Nothing was reported as erased; ask again.")
    return was_there


def discard(account_id: str, pack_ids: Iterable[str], manifest_id: str) -> None:
    """Delete what a save has made and will not publish, as far as the store answers; the rest is found as orphans.

    Prerequisite: no row names these objects, and none will.
    """
    for key in [*(object_key(account_id, Kind.PACK, one) for one in pack_ids), object_key(account_id, Kind.MANIFEST, manifest_id)]:
        try:
            backend().delete(key)
        except BackendError:
            log.warning("an object of an unpublished save stays for the sweep", extra={"key": key}, exc_info=True)


def exists(key: str) -> bool:
    try:
        backend().size(key)
    except MissingObjectError:
        return False
    return True


def require_present(account_id: str) -> None:
    """UnavailableError unless the store holds anything of the account. Prerequisite: it should, for the account has a content key.

    A store that is not mounted looks like one in which everything is missing: who is about to judge by that, or to call something gone,
    asks here first.
    """
    if next(iter(backend().list(account_prefix(account_id))), None) is None:
        raise UnavailableError(
            f"The store holds nothing of account {account_id}, whose key is known: is it the right one, and mounted? Nothing was judged."
        )


def generations(pack_ids: Sequence[str]) -> dict[str, int]:
    """Where each of these packs is now, for a reader that follows them (`checkpoints_app.store.generations`)."""
    return dict(Pack.objects.filter(id__in=pack_ids).values_list("id", "generation"))


def remove_abandoned() -> int:
    """Remove the unfinished objects of writers that died; returns how many writers'. What a live one holds is not touched."""
    found = backend()
    return found.remove_abandoned() if isinstance(found, LocalBackend) else 0
