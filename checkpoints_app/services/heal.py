"""Damaged units get their content back where the same content lies in another pack of the account.

The next save of that content puts it there, because the index of a save never offers a damaged unit.
"""

from collections.abc import Iterator

import numpy as np

from checkpoints_app.models import Pack
from checkpoints_app.services import key, storage
from checkpoints_app.services import pack as packs
from checkpoints_app.services.pack import Healing
from checkpoints_app.states import PackState
from checkpoints_app.store import AccountKeys, IntegrityError, MissingObjectError, load_pack_index
from checkpoints_app.store.ids import Ids
from checkpoints_app.store.packs import PackIndex
from checkpoints_app.store.scan import read_good_units, read_listing, scan_pack

_LOOKED_THROUGH = 4096  # packs, the newest first: 64 GiB of content


def heal(row: Pack) -> int:
    """Rewrite the pack with whatever content can be had for its bad units; returns for how many. BackendError, Busy.

    Nothing is rewritten while nothing can be had: damaged bytes stay for whoever may read them better. A pack whose object is missing, or
    whose table is damaged, does not say what it held, and stays as it is.
    """
    keys = key.keys_to_read(row.account_id)
    try:
        index = read_listing(storage.backend(), keys, row.account_id, row.id, row.generation)
    except (IntegrityError, MissingObjectError):
        return 0
    good = scan_pack(storage.backend(), keys, row.account_id, row.id, row.generation, row.unit_count).good
    wanted = np.flatnonzero(packs.live_units(row) & ~good)
    found = _content(row, keys, index.listed_ids(wanted))
    if len(found) or not len(wanted):
        packs.settle(row.id, healing=Healing({int(wanted[at]): content for at, content in found.items()}))
    return len(found)


def _content(row: Pack, keys: AccountKeys, ids: Ids) -> dict[int, bytes]:
    """Content for these ids, by their place among them, as far as other packs have it."""
    found: dict[int, bytes] = {}
    for table in _other_tables(row, keys):
        missing = np.array([at for at in range(len(ids)) if at not in found], np.int64)
        if not len(missing):
            break
        for at, content in _from_table(row.account_id, keys, table, ids[missing]):
            found[int(missing[at])] = content
    return found


def _other_tables(row: Pack, keys: AccountKeys) -> Iterator[PackIndex]:
    others = Pack.objects.filter(account_id=row.account_id, state=PackState.LIVE).exclude(id=row.id).order_by("-created_at", "id")
    for other in others[:_LOOKED_THROUGH].iterator():
        try:
            yield load_pack_index(storage.backend(), keys, other.account_id, other.id, other.generation)
        except (IntegrityError, MissingObjectError):
            continue  # its own turn in the sweep judges it


def _from_table(account_id: str, keys: AccountKeys, table: PackIndex, ids: Ids) -> Iterator[tuple[int, bytes]]:
    for at in range(len(ids)):
        candidates = np.flatnonzero(table.ids[:, 0] == ids[at, 0])
        same = candidates[(table.ids[candidates] == ids[at]).all(axis=1)]
        if len(same):
            content, good = read_good_units(storage.backend(), keys, account_id, table, table.layout.numbers[same[:1]])
            if good[0]:
                yield at, content[0].tobytes()
