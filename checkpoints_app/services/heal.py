"""Damaged units get their content back where the same content lies in another pack of the account.

The next save of that content puts it there, because the index of a save never offers a damaged unit.
"""

from collections.abc import Iterator

import numpy as np

from checkpoints_app.models import Pack
from checkpoints_app.services import key, storage, twins
from checkpoints_app.services import pack as packs
from checkpoints_app.services.pack import Healing
from checkpoints_app.states import PackState
from checkpoints_app.store import AccountKeys, IntegrityError, MissingObjectError, load_pack_index
from checkpoints_app.store.extents import Int64s
from checkpoints_app.store.ids import Ids
from checkpoints_app.store.packs import Layout, PackIndex
from checkpoints_app.store.scan import read_good_units, read_listing, scan_pack
from checkpoints_app.store.seal import Rewriting

_LOOKED_THROUGH = 4096  # packs, the newest first: 64 GiB of content


def heal(row: Pack) -> int:
    """Rewrite the pack with whatever content can be had for its bad units; returns for how many. BackendError, Busy.

    Nothing is rewritten while nothing can be had: damaged bytes stay for whoever may read them better. A pack whose object is missing, or
    whose table is damaged, is written anew only as a whole: there what it held must be known and found again for every unit.
    """
    keys = key.keys_to_read(row.account_id)
    try:
        index = read_listing(storage.backend(), keys, row.account_id, row.id, row.generation)
    except (IntegrityError, MissingObjectError):
        return _heal_untold(row, keys)
    good = scan_pack(storage.backend(), keys, row.account_id, row.id, row.generation, row.unit_count).good
    wanted = np.flatnonzero(packs.live_units(row) & ~good)
    found = _content(row, keys, index.listed_ids(wanted))
    if len(found) or not len(wanted):
        packs.settle(row.id, healing=Healing({int(wanted[at]): content for at, content in found.items()}))
    return len(found)


def _heal_untold(row: Pack, keys: AccountKeys) -> int:
    wanted = np.flatnonzero(packs.live_units(row))
    ids = twins.ids_of(row, keys, wanted)
    if ids is None:
        return 0
    found = _content(row, keys, ids)
    if len(found) < len(wanted):
        return 0
    replacements = {int(wanted[at]): content for at, content in found.items()}
    packs.settle(row.id, healing=Healing(replacements, _as_if_listed(row, wanted, ids)))
    return len(found)


def _as_if_listed(row: Pack, wanted: Int64s, ids: Ids) -> PackIndex:
    """What the pack's table would say if all of these units were lost."""
    nothing = np.empty(0, np.int64)
    return PackIndex(
        pack_id=row.id,
        ids=ids[:0],
        codecs=np.empty(0, np.uint8),
        first_units=np.zeros(1, np.int64),
        offsets=np.zeros(1, np.int64),
        rewriting=Rewriting(row.generation, b"") if row.generation else None,
        layout=Layout(row.unit_count, nothing, wanted, ids),
    )


def _content(row: Pack, keys: AccountKeys, ids: Ids) -> dict[int, bytes]:
    """Content for these ids, by their place among them, as far as other packs have it."""
    found: dict[int, bytes] = {}
    missing = np.arange(len(ids))
    for table in _other_tables(row, keys):
        if not len(missing):
            break
        found |= {int(missing[at]): content for at, content in _from_table(row.account_id, keys, table, ids[missing])}
        missing = np.array([at for at in missing.tolist() if at not in found], np.int64)
    return found


def _other_tables(row: Pack, keys: AccountKeys) -> Iterator[PackIndex]:
    others = Pack.objects.filter(account_id=row.account_id, state=PackState.LIVE).exclude(id=row.id).order_by("-created_at", "id")
    for other in others[:_LOOKED_THROUGH].iterator():
        try:
            yield load_pack_index(storage.backend(), keys, other.account_id, other.id, other.generation)
        except (IntegrityError, MissingObjectError):
            continue  # its own turn in the sweep judges it


def _from_table(account_id: str, keys: AccountKeys, table: PackIndex, ids: Ids) -> Iterator[tuple[int, bytes]]:
    """Each frame of the pack that has one of these is read once."""
    positions = _positions(table, ids)
    at = np.flatnonzero(positions >= 0)
    numbers, where = np.unique(table.layout.numbers[positions[at]], return_inverse=True)
    if len(at):
        content, good = read_good_units(storage.backend(), keys, account_id, table, numbers)
        for place, number in zip(at.tolist(), where.tolist(), strict=True):
            if good[number]:
                yield place, content[number].tobytes()


def _positions(table: PackIndex, ids: Ids) -> Int64s:
    """Where these ids stand in the pack's table; -1 for one that is not there."""
    if not len(table.ids):
        return np.full(len(ids), -1, np.int64)
    order = np.argsort(table.ids[:, 0], kind="stable")
    at = np.searchsorted(table.ids[order, 0], ids[:, 0])
    candidates = order[np.minimum(at, len(order) - 1)]
    return np.where((table.ids[candidates] == ids).all(axis=1), candidates, -1)
