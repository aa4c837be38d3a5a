"""Where each written unit lies: where the parent has it, where the lineage or this save has the same content, or in a new pack."""

import numpy as np

from .extents import UNIT_BITS, UNIT_MASK, ZERO, Int64s, Locations
from .ids import UNIT_BYTES, Ids, unit_ids
from .index import UnitIndex
from .keys import SecretKey
from .manifest import Manifest
from .packer import Packer
from .pages import Units
from .roots import Gather

_UNPLACED = -3


class PackTable:
    """The manifest's table of packs: the parent's, then others as they come into use."""

    def __init__(self, parent: Manifest | None):
        self.packs = list(parent.packs) if parent else []
        self._ordinals = {pack_id: ordinal for ordinal, pack_id in enumerate(self.packs)}

    def ordinal(self, pack_id: str) -> int:
        if pack_id not in self._ordinals:
            self._ordinals[pack_id] = len(self.packs)
            self.packs.append(pack_id)
        return self._ordinals[pack_id]

    def translated(self, index: UnitIndex, positions: Int64s) -> Locations:
        """Locations in this table of an index's units."""
        locations = index.locations_of(positions)
        used, which = np.unique(locations >> UNIT_BITS, return_inverse=True)
        ordinals = np.array([self.ordinal(index.pack_ids[number]) for number in used.tolist()], np.int64)
        return (ordinals[which] << UNIT_BITS) | (locations & UNIT_MASK)


class Placement:
    """Places units for one save."""

    def __init__(self, id_key: SecretKey, parent: Manifest | None, index: UnitIndex, packer: Packer, table: PackTable):
        self._id_key, self._index, self._packer, self._table = id_key, index, packer, table
        self._parent_ids = Gather(parent.packs if parent else (), [index])

    def place(self, old: Locations, content: Units) -> Locations:
        """Where each of these units lies; new ones are handed to the packer. `old` is where they lay in the parent."""
        placed = np.full(len(content), ZERO, np.int64)
        live = np.flatnonzero(content.any(axis=1))
        flat = content.reshape(-1).data
        ids = unit_ids(self._id_key.reveal(), flat, (live * UNIT_BYTES).tolist())
        found = self._find(old[live], ids)
        fresh = np.flatnonzero(found == _UNPLACED)
        if len(fresh):
            found[fresh] = self._store(content, live[fresh], ids[fresh])
        placed[live] = found
        return placed

    def _find(self, old: Locations, ids: Ids) -> Locations:
        found = np.full(len(ids), _UNPLACED, np.int64)
        held = np.flatnonzero(old >= 0)
        same = held[(self._parent_ids.ids(old[held], None) == ids[held]).all(axis=1)]
        found[same] = old[same]
        for index in (self._index, self._packer.index):
            todo = np.flatnonzero(found == _UNPLACED)
            positions = index.lookup(ids[todo])
            hits = positions >= 0
            if hits.any():
                found[todo[hits]] = self._table.translated(index, positions[hits])
        return found

    def _store(self, content: Units, rows: Int64s, ids: Ids) -> Locations:
        """Store units that were found nowhere, each content once, in image order."""
        _, firsts, which = np.unique(ids[:, 0], return_index=True, return_inverse=True)
        unlike = np.flatnonzero((ids[firsts[which]] != ids).any(axis=1))  # another id with the same prefix: stored for itself
        chosen = np.sort(np.concatenate((firsts, unlike)))
        locations = np.empty(len(rows), np.int64)
        locations[chosen] = self._packer.add(content, rows[chosen], ids[chosen])
        repeats = np.setdiff1d(np.arange(len(rows)), chosen, assume_unique=True)
        locations[repeats] = locations[firsts[which[repeats]]]
        return locations
