"""The configured checkpoint store (STORAGES["checkpoints"]) and the deletion of single objects in it."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from django.core.files.storage import FileSystemStorage, storages
from django.db import connection
from django.db.models import QuerySet

from checkpoints_app.models import AccountKey, Manifest, Pack
from checkpoints_app.services import storage_s3
from checkpoints_app.store import (
    Backend,
    BackendError,
    Kind,
    LocalBackend,
    MissingObjectError,
    UnavailableError,
    object_key,
)
from checkpoints_app.store.names import account_key_key

log = logging.getLogger(__name__)
_LOOKED_AT = 3  # of a kind
_told_of_deletions: list[Callable[[str], None]] = []


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
    for told in _told_of_deletions:
        told(key)
    return was_there


def tell_of_deletions(told: Callable[[str], None]) -> None:
    """Have `told` called with the key of each object that a process like this one deletes: who keeps copies forgets them. Idempotent."""
    if told not in _told_of_deletions:
        _told_of_deletions.append(told)


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
    """UnavailableError unless the store is the one in which the account's objects are. Prerequisite: it has a content key.

    A store that is not mounted looks like one in which everything is missing: who is about to judge by that, or to call something gone,
    asks here first. It is known by the account's key, or by what was verified longest ago: what was written since, where the store should
    be, proves nothing.
    """
    rows = AccountKey.objects.filter(account_id=account_id)
    of_packs, of_manifests = Pack.objects.filter(account_id=account_id), Manifest.objects.filter(account_id=account_id)
    if not any(exists(name) for name in _landmarks(rows, of_packs, of_manifests)):
        raise UnavailableError(
            f"The store holds nothing of account {account_id}, whose key is known: is it the right one, and mounted? Nothing was judged."
        )


def require_known() -> None:
    """As `require_present`, for who is about to write the first objects of an account: of whatever account something must be there."""
    landmarks = _landmarks(AccountKey.objects.all(), Pack.objects.all(), Manifest.objects.all())
    if Pack.objects.exists() and not any(exists(name) for name in landmarks):
        raise UnavailableError(
            "The store holds nothing of what the database tells: is it the right one, and mounted? Nothing was written to it."
        )


def _landmarks(keys: "QuerySet[AccountKey]", of_packs: "QuerySet[Pack]", of_manifests: "QuerySet[Manifest]") -> Iterator[str]:
    for account_id, generation in keys.order_by("created_at").values_list("account_id", "generation")[:_LOOKED_AT]:
        yield account_key_key(account_id, generation)
    for pack in of_packs.order_by("verified_at", "id")[:_LOOKED_AT]:
        yield object_key(pack.account_id, Kind.PACK, pack.id, pack.generation)
    for manifest in of_manifests.order_by("verified_at", "id")[:_LOOKED_AT]:
        yield object_key(manifest.account_id, Kind.MANIFEST, manifest.id)


def generations(pack_ids: Sequence[str]) -> dict[str, int]:
    """Where each of these packs is now, for a reader that follows them (`checkpoints_app.store.generations`).

    A thread that has no connection to the database has none afterwards. A restore asks from threads of its own, which end with it, and no
    pool gets back what such a thread has kept.
    """
    had_one = connection.connection is not None
    try:
        return dict(Pack.objects.filter(id__in=pack_ids).values_list("id", "generation"))
    finally:
        if not had_one:
            connection.close()


def remove_abandoned() -> int:
    """Remove the unfinished objects of writers that died; returns how many writers'. What a live one holds is not touched."""
    found = backend()
    return found.remove_abandoned() if isinstance(found, LocalBackend) else 0
