"""Objects of the store that no row names: seen, a day later put into quarantine, a week later deleted; looked at again before each step.

A save that dies leaves such objects. So does a database that was restored from an old copy, and for that the quarantine is: what lies in it
can be put back, and is, as soon as a row names it. A listing that fails decides nothing. Accounts that the database does not know, and
names that are none of ours, are told and never touched. All times are the database's.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import islice

from django.db.models.functions import Now

from checkpoints_app.models import AccountKey, ErasureReceipt, Manifest, OrphanObject, Pack, Sweep
from checkpoints_app.services import storage, sweeps, verify
from checkpoints_app.states import PACK_UNSETTLED
from checkpoints_app.store import MissingObjectError, ObjectExistsError, StoreError
from checkpoints_app.store.backends.backend import Listed
from checkpoints_app.store.names import QUARANTINE, ObjectName, parse_key

log = logging.getLogger(__name__)

NAME = "orphans"
UNTOUCHED = timedelta(days=1)
QUARANTINED = timedelta(days=7)
_BATCH = 1000
_MOST = 100_000  # more objects without a row mean that the database is not this store's


def sweep() -> Sweep:
    """One look at the whole store. Raises Busy if one goes on; BackendError if the listing or a step fails: what was done before stays."""
    with sweeps.running(NAME) as row:
        orphans, quarantined, strangers = _look(row)
        row.report = {"orphans": len(orphans), "quarantined": 0, "deleted": 0, "put_back": 0, "strangers": strangers}
        _remember(orphans, quarantined)
        for found in OrphanObject.objects.filter(quarantined_at__isnull=True, first_seen_at__lt=Now() - UNTOUCHED).order_by("key"):
            row.report["quarantined"] += _quarantine(found)
        for found in _named_again():
            row.report["put_back"] += _put_back(found)
        for found in OrphanObject.objects.filter(quarantined_at__lt=Now() - QUARANTINED).order_by("key"):
            row.report["deleted"] += _delete(found)
    row.refresh_from_db()
    return row


def _look(row: Sweep) -> tuple[dict[str, int], dict[str, int], int]:
    """Objects without a row and what lies in quarantine, with their sizes, and how many are not ours. Nothing is written before it ends."""
    orphans: dict[str, int] = {}
    quarantined: dict[str, int] = {}
    strangers = 0
    for batch in _batches(storage.backend().list("")):
        row.objects_done += len(batch)
        row.bytes_done += sum(one.object_bytes for one in batch)
        sizes = {one.key: one.object_bytes for one in batch}
        quarantined |= {name.removeprefix(QUARANTINE): size for name, size in sizes.items() if name.startswith(QUARANTINE)}
        ours = [name for name in sizes if not name.startswith(QUARANTINE)]
        nobodys = set(unknown(ours))
        strangers += sum(1 for name in ours if _stranger(name, nobodys))
        orphans |= {name: sizes[name] for name in nobodys}
        if len(orphans) > _MOST:
            raise StoreError(f"More than {_MOST} objects have no row: is the database this store's? Nothing was done; see rebuild_index.")
    still = set(unknown(orphans))  # rows may have come while the listing went on
    return {name: size for name, size in orphans.items() if name in still}, quarantined, strangers


def _batches(listed: Iterator[Listed]) -> Iterator[list[Listed]]:
    while batch := list(islice(listed, _BATCH)):
        yield batch


def _stranger(name: str, nobodys: set[str]) -> bool:
    parsed = parse_key(name)
    return parsed is None or (name not in nobodys and parsed.account_id not in _known_accounts([parsed.account_id]))


def unknown(keys: Iterable[str]) -> list[str]:
    """Of these keys of objects, those of accounts that the database knows and that no row names."""
    names = {name: parsed for name in keys if (parsed := parse_key(name)) is not None}
    accounts = _known_accounts({name.account_id for name in names.values()})
    held = {
        "pack": _packs(names.values()),
        "manifest": _manifests(names.values()),
        "erased": _manifests(names.values()),
        "key": _account_keys(names.values()),
    }
    return [name for name, one in names.items() if one.account_id in accounts and _place(one) not in held[one.word]]


def _place(name: ObjectName) -> tuple[str, int]:
    return name.object_id or name.account_id, name.generation


def _known_accounts(account_ids: Iterable[str]) -> set[str]:
    """Those that have a content key, or had one that was destroyed by us."""
    wanted = set(account_ids)
    with_key = AccountKey.objects.filter(account_id__in=wanted).values_list("account_id", flat=True)
    erased = ErasureReceipt.objects.filter(account_id__in=wanted, key_destroyed_at__isnull=False).values_list("account_id", flat=True)
    return {*with_key, *erased}


def _packs(names: Iterable[ObjectName]) -> set[tuple[str, int]]:
    """A pack that is being rewritten or deleted has all the generations that whoever is at it will clear away."""
    rows = Pack.objects.filter(id__in={name.object_id for name in names if name.word == "pack"})
    held = set()
    for row in rows:
        held.add((row.id, row.generation))
        if row.state in PACK_UNSETTLED:
            held.update((row.id, one) for one in range(row.cleared_generation, row.reserved_generation + 1))
    return held


def _manifests(names: Iterable[ObjectName]) -> set[tuple[str, int]]:
    wanted = {name.object_id for name in names if name.word in ("manifest", "erased")}
    return {(found, 0) for found in Manifest.objects.filter(id__in=wanted).values_list("id", flat=True)}


def _account_keys(names: Iterable[ObjectName]) -> set[tuple[str, int]]:
    """Also a generation that a rotation has put and not yet made the row's: only what the row has left behind is nobody's."""
    rows = dict(AccountKey.objects.filter(account_id__in={name.account_id for name in names}).values_list("account_id", "generation"))
    return {(one.account_id, one.generation) for one in names if one.word == "key" and one.generation >= rows.get(one.account_id, 0)}


def _remember(orphans: Mapping[str, int], quarantined: Mapping[str, int]) -> None:
    """Rows for what was seen first now; those of objects that have a row again, or are gone, are forgotten."""
    OrphanObject.objects.filter(quarantined_at__isnull=True).exclude(key__in=list(orphans)).delete()
    OrphanObject.objects.filter(quarantined_at__isnull=False).exclude(key__in=list(quarantined)).delete()
    found = sorted({**quarantined, **orphans}.items())
    OrphanObject.objects.bulk_create([OrphanObject(key=name, object_bytes=size) for name, size in found], ignore_conflicts=True)
    moved = set(quarantined) - set(orphans)  # what is in both places is a move that died, and is done again
    OrphanObject.objects.filter(key__in=moved, quarantined_at__isnull=True).update(quarantined_at=Now())


def _quarantine(found: OrphanObject) -> bool:
    if not unknown([found.key]):
        OrphanObject.objects.filter(key=found.key).delete()
        return False
    moved = _move(found.key, QUARANTINE + found.key)
    if moved:
        log.warning("an object that no row names was put into quarantine", extra={"key": found.key, "bytes": found.object_bytes})
        OrphanObject.objects.filter(key=found.key).update(quarantined_at=Now())
    return moved


def _named_again() -> Iterator[OrphanObject]:
    """What lies in quarantine and a row names now."""
    lying = OrphanObject.objects.filter(quarantined_at__isnull=False).order_by("key").iterator()
    while batch := list(islice(lying, _BATCH)):
        nobodys = set(unknown([found.key for found in batch]))
        yield from (found for found in batch if found.key not in nobodys)


def _put_back(found: OrphanObject) -> bool:
    moved, name = _move(QUARANTINE + found.key, found.key), parse_key(found.key)
    if moved and name is not None:
        verify.look_soon(name.word, name.object_id)  # a sweep that missed it has called it lost
        log.warning("an object was put back from quarantine: a row names it", extra={"key": found.key})
        OrphanObject.objects.filter(key=found.key).delete()
    return moved


def _delete(found: OrphanObject) -> bool:
    if not unknown([found.key]):
        return False
    storage.delete_object(QUARANTINE + found.key)
    log.warning("an orphan was deleted after its time in quarantine", extra={"key": found.key, "bytes": found.object_bytes})
    OrphanObject.objects.filter(key=found.key).delete()
    return True


def _move(source: str, target: str) -> bool:
    """Durable under its new key before it leaves the old one. False if it is not there. A move that died is done again."""
    backend = storage.backend()
    try:
        backend.put_if_absent(target, backend.stream(source))
    except MissingObjectError:
        return False
    except ObjectExistsError:
        if backend.size(target) != backend.size(source):
            raise StoreError(f"{target} is there and is not {source}. Neither was touched; tell the operator.") from None
    storage.delete_object(source)
    return True
