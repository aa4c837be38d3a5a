"""The database's store tables restored from the store and the master key alone: onto an empty database, or as a repair of a damaged one.

Whatever the store says is only added or corrected: an account, its key, sessions (parked), pins, checkpoints, packs, manifests and edges.
Rows that say more than the store can (a session's history and state, a checkpoint that failed or was erased) stay as they are. A manifest
whose checkpoint was erased is marked so in the store and comes back only as what others build on. A fork that has not saved yet has its
parent's manifest: where its row is lost, the checkpoint comes back as its parent's.

What cannot come back: the names of accounts and sessions, tokens, events, operations, images' own rows. What a save that died has left
complete, manifest and all, comes back as a checkpoint if the database did not know better: it is one, though nobody was told.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from django.db import transaction

from checkpoints_app.models import AccountKey, Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services import integrity, key, rebuild_rows, storage
from checkpoints_app.services import pack as packs
from checkpoints_app.services.publish import encoded_needs
from checkpoints_app.states import CheckpointState, ManifestState, PackState
from checkpoints_app.store import AccountKeys, IntegrityError, Kind, MissingObjectError, StoreError, derive_keys, load_manifest, object_key
from checkpoints_app.store import Manifest as StoredManifest
from checkpoints_app.store.bitmap import as_set, decode_units, encode_units
from checkpoints_app.store.extents import PACK_UNITS
from checkpoints_app.store.names import ObjectName, parse_key
from checkpoints_app.store.packs import PackIndex
from checkpoints_app.store.scan import read_listing

log = logging.getLogger(__name__)
Say = Callable[[str], None]

_KEPT = (CheckpointState.PUBLISHED, CheckpointState.CORRUPT)


@dataclass
class AccountObjects:
    """What the store lists of one account. Sizes in bytes."""

    keys: list[int] = field(default_factory=list)  # generations
    packs: dict[str, dict[int, int]] = field(default_factory=dict)  # id to generation to size
    manifests: dict[str, int] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)


@dataclass
class Rebuilt:
    accounts: int = 0
    checkpoints: int = 0
    made: int = 0  # checkpoints that had no row
    corrupt: int = 0
    packs: int = 0
    problems: list[str] = field(default_factory=list)


def rebuild(say: Say = lambda text: None) -> Rebuilt:
    """Prerequisite: nothing saves or erases meanwhile. Safe to repeat. BackendError if the listing fails: then nothing was changed."""
    listed = _listed()
    done = Rebuilt()
    for account_id, objects in sorted(listed.items()):
        say(f"account {account_id}: {len(objects.manifests)} manifests, {len(objects.packs)} packs")
        try:
            _account(account_id, objects, done)
            done.accounts += 1
        except (StoreError, ValueError) as error:
            done.problems.append(f"account {account_id}: {error}")
    return done


def _listed() -> dict[str, AccountObjects]:
    found: dict[str, AccountObjects] = {}
    for one in storage.backend().list(""):
        name = parse_key(one.key)
        if name is not None:
            _note(found.setdefault(name.account_id, AccountObjects()), name, one.object_bytes)
    return found


def _note(objects: AccountObjects, name: ObjectName, size: int) -> None:
    if name.word == "key":
        objects.keys.append(name.generation)
    elif name.word == "pack":
        objects.packs.setdefault(name.object_id, {})[name.generation] = size
    elif name.word == "manifest":
        objects.manifests[name.object_id] = size
    else:
        objects.erased.add(name.object_id)


def _account(account_id: str, objects: AccountObjects, done: Rebuilt) -> None:
    keys = _key(account_id, objects)
    manifests = _manifests(account_id, keys, objects, done)
    own = {one.manifest_id: one for one in manifests.values() if one.manifest_id not in objects.erased}
    rows = {row.id: one for one in own.values() if (row := _checkpoint(account_id, one, done)) is not None}
    rows |= _rows_of(account_id, manifests)
    needed = sorted({pack_id for one in rows.values() for pack_id in one.referenced_packs})
    _packs(account_id, keys, needed, objects, done)
    for checkpoint_id, stored in rows.items():
        _edges(checkpoint_id, account_id, stored, objects.manifests)
    _settle_states(account_id, needed, done)
    rebuild_rows.restore_lines(account_id, rows.values())
    done.checkpoints += len(rows)


def _key(account_id: str, objects: AccountObjects) -> AccountKeys:
    """The newest wrapping that the master key opens; the row's own, if it opens."""
    rebuild_rows.account(account_id)
    row = AccountKey.objects.filter(account_id=account_id).first()
    if row is not None:
        try:
            return derive_keys(key.unwrap(account_id, bytes(row.wrapped)))
        except IntegrityError:
            log.warning("the row's key does not open, the store's is tried", extra={"account_id": account_id})
    for generation in sorted(objects.keys, reverse=True):
        wrapped = key.read_stored(account_id, generation) or b""
        try:
            root = key.unwrap(account_id, wrapped)
        except IntegrityError:
            continue
        AccountKey.objects.update_or_create(account_id=account_id, defaults={"wrapped": wrapped, "generation": generation})
        return derive_keys(root)
    raise StoreError("no wrapping of its key opens with this master key. Nothing of the account was restored")


def _manifests(account_id: str, keys: AccountKeys, objects: AccountObjects, done: Rebuilt) -> dict[str, StoredManifest]:
    found = {}
    for manifest_id in sorted(objects.manifests):
        try:
            found[manifest_id] = load_manifest(storage.backend(), keys, account_id, manifest_id)
        except (IntegrityError, MissingObjectError) as error:
            done.problems.append(str(error))
    return found


def _checkpoint(account_id: str, stored: StoredManifest, done: Rebuilt) -> Checkpoint | None:
    """Its row, made if there is none; None if the database knows that it failed or was erased, or if the manifest does not say enough."""
    row = Checkpoint.objects.filter(id=str(stored.facts.get("checkpoint"))).first()
    if row is None:
        row = rebuild_rows.checkpoint(account_id, stored)
        done.made += row is not None
        if row is None:
            done.problems.append(f"manifest {stored.manifest_id} does not say of which session it is")
    known = row is not None and row.state in _KEPT and row.account_id == account_id and row.manifest_id == stored.manifest_id
    return row if known else None


def _rows_of(account_id: str, manifests: Mapping[str, StoredManifest]) -> dict[str, StoredManifest]:
    """Every checkpoint that the database keeps and whose manifest is there: a fork's is its parent's, and does not tell of the fork."""
    kept = Checkpoint.objects.filter(account_id=account_id, manifest_id__in=list(manifests), state__in=_KEPT)
    return {row.id: manifests[row.manifest_id] for row in kept}


def _packs(account_id: str, keys: AccountKeys, needed: Iterable[str], objects: AccountObjects, done: Rebuilt) -> None:
    for pack_id in needed:
        row = Pack.objects.filter(id=pack_id).first()
        generations = objects.packs.get(pack_id, {})
        if not generations or (row is not None and row.generation not in generations):
            generations = generations | _unlisted(account_id, pack_id, row)
        if row is not None and row.generation in generations and row.account_id == account_id and bytes(row.units):
            continue
        index = _newest(account_id, keys, pack_id, generations)
        _pack_row(account_id, pack_id, index, generations)
        done.packs += 1


def _unlisted(account_id: str, pack_id: str, row: Pack | None) -> dict[int, int]:
    """A listing may end early and not say so, or be old by now: what it lacks is looked for where the row says, before it is missing."""
    generation = row.generation if row else 0
    try:
        return {generation: storage.backend().size(object_key(account_id, Kind.PACK, pack_id, generation))}
    except MissingObjectError:
        storage.require_present(account_id)
        return {}


def _newest(account_id: str, keys: AccountKeys, pack_id: str, generations: Mapping[int, int]) -> PackIndex | None:
    """The highest generation that tells what it holds: each one holds whatever was needed when it was written, and later."""
    for generation in sorted(generations, reverse=True):
        try:
            return read_listing(storage.backend(), keys, account_id, pack_id, generation)
        except (IntegrityError, MissingObjectError) as error:
            log.error("a pack cannot be read", extra={"pack_id": pack_id, "reason": str(error)})
    return None


def _pack_row(account_id: str, pack_id: str, index: PackIndex | None, generations: Mapping[int, int]) -> None:
    """Other generations beside it were left by a rewrite that died: the row says so, and `settle` clears them away."""
    newest = max(generations, default=0)
    values: dict[str, object] = {"account_id": account_id, "reserved_generation": newest, "cleared_generation": min(generations, default=0)}
    if index is None:
        values |= {"state": PackState.CORRUPT, "generation": newest, "unit_count": PACK_UNITS, "units": b"", "stored_bytes": 0}
    else:
        count = index.layout.unit_count
        values |= {
            "state": PackState.REWRITING if len(generations) > 1 else PackState.LIVE,
            "generation": index.generation,
            "unit_count": count,
            "units": encode_units(as_set(index.layout.numbers, count)),
            "bad": encode_units(as_set(index.layout.lost, count)),
            "stored_bytes": generations[index.generation],
        }
    Pack.objects.update_or_create(id=pack_id, defaults=values)


def _edges(checkpoint_id: str, account_id: str, stored: StoredManifest, sizes: Mapping[str, int]) -> None:
    """Exactly what the manifest says; nothing for a checkpoint of which an erasure has begun meanwhile."""
    line = [stored.manifest_id, *stored.ancestors]
    with transaction.atomic():
        if Checkpoint.objects.select_for_update(no_key=True).get(id=checkpoint_id).state not in _KEPT:
            return
        PackEdge.objects.filter(checkpoint_id=checkpoint_id).delete()
        needs = sorted(encoded_needs(stored).items())
        PackEdge.objects.bulk_create([PackEdge(checkpoint_id=checkpoint_id, pack_id=pack_id, units=units) for pack_id, units in needs])
        Manifest.objects.bulk_create(
            [Manifest(id=one, account_id=account_id, stored_bytes=sizes[one]) for one in line], ignore_conflicts=True
        )
        Manifest.objects.filter(id__in=line).exclude(state=ManifestState.LIVE).update(state=ManifestState.LIVE)
        ManifestEdge.objects.filter(checkpoint_id=checkpoint_id).delete()
        ManifestEdge.objects.bulk_create([ManifestEdge(checkpoint_id=checkpoint_id, manifest_id=one) for one in line])


def _settle_states(account_id: str, needed: Iterable[str], done: Rebuilt) -> None:
    """Units that are needed and not there make their checkpoints corrupt; units that nobody needs go, as at an erasure."""
    for row in Pack.objects.filter(account_id=account_id, id__in=needed).order_by("id"):
        with transaction.atomic():
            now = Pack.objects.select_for_update().get(id=row.id)
            live = packs.live_units(now)
            listed = packs.listed_units(now)
            bad = live & (decode_units(now.bad, now.unit_count) | ~decode_units(now.units, now.unit_count))
            Pack.objects.filter(id=row.id).update(bad=encode_units(bad))
            if bad.any():
                done.corrupt += len(integrity.mark_needing(now, bad, "it does not hold units that are needed"))
                Pack.objects.filter(id=row.id, state=PackState.LIVE).update(state=PackState.CORRUPT)
            if not live.any() or (listed & ~live).any():
                Pack.objects.filter(id=row.id).update(state=PackState.REWRITING, bad=encode_units(bad | (listed & ~live)))
        if not bad.any():
            integrity.reconsider_holders(row.id)
        if Pack.objects.filter(id=row.id, state=PackState.REWRITING).exists():
            packs.settle(row.id)
