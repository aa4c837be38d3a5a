"""What a save finds content in: every pack of its account, of whatever session, fork or image.

The tables of the parent's packs are read at the beginning, those of another pack when this host's hints say that it may hold what is
being saved. Tables are kept in this process by pack and generation (such an object never changes). What the rows said of each pack goes
with the index, for the publication to compare.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TypeVar

from checkpoints_app.models import Pack
from checkpoints_app.services import host_index, storage
from checkpoints_app.services import pack as packs
from checkpoints_app.services.relied import PacksMoved, PackVersion, version_of
from checkpoints_app.states import PACK_RELIABLE, PackState
from checkpoints_app.store import (
    AccountKeys,
    IntegrityError,
    Kind,
    Manifest,
    MissingObjectError,
    PublishedPlan,
    UnitIndex,
    load_pack_index,
    object_key,
)
from checkpoints_app.store.account_index import AccountIndex
from checkpoints_app.store.bitmap import decode_units
from checkpoints_app.store.compact_index import CompactIndex
from checkpoints_app.store.generations import MOVES
from checkpoints_app.store.ids import Ids
from checkpoints_app.store.packs import PackIndex
from sessions_app.services.locks import Busy

NEWEST_PACKS = 64  # made on other hosts since this one's last save: so many are learned at each save
_BATCH_PACKS = 64  # tables read at a time: 9 MiB
_OFFERED = (PackState.LIVE,)  # of packs beside the parent's: nothing bad, nothing that an erasure is at
_THREADS = 8  # waits of an object store; the work is little
_KEPT_TABLES = 256  # 33 MiB per process


@dataclass(frozen=True, eq=False)
class Dedup:
    index: UnitIndex
    versions: Mapping[str, PackVersion]  # of every pack in the index


class _Tables:
    """The tables that were read last. Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, str, int], PackIndex] = OrderedDict()

    def get(self, account_id: str, pack_id: str, generation: int) -> PackIndex | None:
        with self._lock:
            found = self._kept.get((account_id, pack_id, generation))
            if found is not None:
                self._kept.move_to_end((account_id, pack_id, generation))
            return found

    def keep(self, account_id: str, table: PackIndex) -> None:
        with self._lock:
            self._kept[(account_id, table.pack_id, table.generation)] = table
            while len(self._kept) > _KEPT_TABLES:
                self._kept.popitem(last=False)


_tables = _Tables()
Row = TypeVar("Row")


def index_for(account_id: str, keys: AccountKeys, parent: Manifest | None) -> Dedup:
    """Prerequisite: outside a transaction, here and while it is used. It may read tables and rows whenever something is looked up.

    PacksMoved if a pack of the parent is erased, or is being rewritten and does not come to rest. IntegrityError, MissingObjectError or
    BackendError if a pack of the parent cannot be read; another pack is left out then.
    """
    for _ in range(MOVES):
        needed = _at_rest(account_id, list(parent.referenced_packs) if parent else [])
        try:
            return _index_over(account_id, keys, needed)
        except MissingObjectError:
            if _versions(Pack.objects.filter(id__in=list(needed))) == _versions(needed.values()):
                raise
    raise PacksMoved("the parent's packs do not come to rest")


def learn(account_id: str, plan: PublishedPlan) -> None:
    """After the publication: let the saves on this host find what this one stored."""
    hints = host_index.of(account_id)
    for batch in _batches(plan.new_packs):
        host_index.learn(hints, [(pack.pack_id, plan.new_units.ids_of(pack.pack_id)) for pack in batch])


def _index_over(account_id: str, keys: AccountKeys, needed: Mapping[str, Pack]) -> Dedup:
    hints, versions = host_index.of(account_id), _versions(needed.values())
    index = AccountIndex(hints, partial(_usable, account_id, keys, hints, versions))
    known = hints.pack_ids()
    for batch in _batches(list(needed.values())):
        tables = _read(account_id, keys, batch)
        for pack_id, table in tables.items():
            index.add_pack(pack_id, _good_ids(table, needed[pack_id]))
        host_index.learn(hints, [(pack_id, table.ids_by_number) for pack_id, table in tables.items() if pack_id not in known])
        index.release()
    newest = _newest(account_id, exclude=known.union(needed))
    host_index.learn(hints, [(pack_id, table.ids_by_number) for pack_id, table in _read(account_id, keys, newest, only_good=True).items()])
    return Dedup(index, versions)


def _usable(
    account_id: str, keys: AccountKeys, hints: CompactIndex, versions: dict[str, PackVersion], pack_ids: Sequence[str]
) -> Iterator[PackIndex]:
    """The tables of those packs that may be relied on; what their rows say is entered in `versions`."""
    rows = {row.id: row for row in Pack.objects.filter(account_id=account_id, id__in=pack_ids)}
    offered = [row for row in rows.values() if row.state in _OFFERED]
    for pack_id, table in _read(account_id, keys, offered, only_good=True).items():
        versions[pack_id] = version_of(rows[pack_id])
        yield table
    host_index.forget(hints, set(pack_ids).difference(rows))


def _batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    return (rows[start : start + _BATCH_PACKS] for start in range(0, len(rows), _BATCH_PACKS))


def _versions(rows: Iterable[Pack]) -> dict[str, PackVersion]:
    return {row.id: version_of(row) for row in rows}


def _at_rest(account_id: str, pack_ids: list[str]) -> dict[str, Pack]:
    """The rows, after what an erasure has begun on one of them is finished: by that erasure, or here if it died."""
    for row in Pack.objects.filter(account_id=account_id, id__in=pack_ids, state=PackState.REWRITING):
        try:
            packs.settle(row.id)
        except Busy:
            raise PacksMoved("a pack of the parent is being rewritten for long") from None
    rows = {row.id: row for row in Pack.objects.filter(account_id=account_id, id__in=pack_ids, state__in=PACK_RELIABLE)}
    if len(rows) != len(pack_ids):
        raise PacksMoved(f"{len(pack_ids) - len(rows)} packs of the parent are being erased")
    return {pack_id: rows[pack_id] for pack_id in pack_ids}


def _newest(account_id: str, exclude: set[str]) -> list[Pack]:
    newest = Pack.objects.filter(account_id=account_id, state=PackState.LIVE).order_by("-created_at", "id")[:NEWEST_PACKS]
    return [row for row in newest if row.id not in exclude]


def _read(account_id: str, keys: AccountKeys, rows: Sequence[Pack], *, only_good: bool = False) -> dict[str, PackIndex]:
    """The packs' tables, in the order of the rows. `only_good`: a pack that is gone or bad is left out; it only would have saved space."""

    def read(row: Pack) -> PackIndex | None:
        try:
            return _table(account_id, keys, row)
        except (IntegrityError, MissingObjectError):
            if only_good:
                return None
            raise

    if not rows:
        return {}
    with ThreadPoolExecutor(_THREADS, "dedup") as pool:
        return {row.id: table for row, table in zip(rows, pool.map(read, rows), strict=True) if table is not None}


def _table(account_id: str, keys: AccountKeys, row: Pack) -> PackIndex:
    """Kept or read. One that is kept is believed only while its object is there in its whole size."""
    table = _tables.get(account_id, row.id, row.generation)
    name = object_key(account_id, Kind.PACK, row.id, row.generation)
    if table is None or storage.backend().size(name) != table.stored_bytes:
        table = load_pack_index(storage.backend(), keys, account_id, row.id, row.generation)
        _tables.keep(account_id, table)
    return table


def _good_ids(table: PackIndex, row: Pack) -> Ids:
    """Ids by unit number, without the bad units: content that is saved again is stored again, and heals them."""
    bad = decode_units(row.bad, row.unit_count)
    if not bad.any():
        return table.ids_by_number
    ids = table.ids_by_number.copy()
    ids[bad] = 0
    return ids
