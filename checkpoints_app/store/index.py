"""Unit ids by place, and the dedup index: which of these ids lies in which pack and unit. Built from pack indexes, never stored itself.

Units that a pack does not have any more keep their position, with the zero id, and are never found.

48 bytes per unit: the id (32), its 64-bit prefix and its position in sorted order. Large tables lie outside of memory (spill.py). Sorted
runs are merged when they are of like size, up to half a million units, so that adding is cheap and a batch is looked up in a few vectorised
searches. A prefix finds a candidate, the whole id decides: two ids with one prefix cost a second copy of a unit, never a wrong one.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from . import spill
from .extents import UNIT_BITS, Int64s, Locations
from .ids import Ids, type_ids

DEFAULT_MAX_UNITS = 1 << 27  # 512 GiB of content; 6 GiB of index, of which few lie in memory
_FIRST_CAPACITY = 4096
_RUN_UNITS = 1 << 19
_RESIDENT_BYTES = 16 << 20  # of what is spilled so much may stay in memory between two uses


class UnitTable:
    """Ids of units by position; positions are grouped by pack, in the order in which packs were added. One thread at a time."""

    def __init__(self, capacity: int = _FIRST_CAPACITY) -> None:
        self.pack_ids: list[str] = []
        self._bases: list[int] = []  # position of each pack's first unit
        self._known: dict[str, int] = {}  # ordinal of each pack
        self._ids: Ids = spill.empty((capacity, 4), type_ids)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def open_pack(self, pack_id: str) -> None:
        """What `extend` adds from now on lies in this pack, from its unit 0 on."""
        self._known[pack_id] = len(self.pack_ids)
        self.pack_ids.append(pack_id)
        self._bases.append(self._count)

    def extend(self, ids: Ids) -> None:
        """The next units of the last pack."""
        end = self._count + len(ids)
        if end > len(self._ids):
            self._ids = spill.copy(self._ids[: self._count], max(end, 2 * len(self._ids)))
        self._ids[self._count : end] = ids
        self._count = end

    def ids_at(self, positions: Int64s) -> Ids:
        return self._ids[positions]

    def ids_of(self, pack_id: str) -> Ids:
        """A view of one pack's ids, in the order of its units."""
        base, size = self._span(pack_id)
        return self._ids[base : base + size]

    def release(self) -> None:
        """Let what is spilled leave memory, if it is much."""
        if spill.spilled_bytes(self._ids) > _RESIDENT_BYTES:
            spill.release(self._ids)

    def spans_of(self, pack_ids: Sequence[str]) -> tuple[Int64s, Int64s]:
        """Position of the first unit, and number of units, of each pack; -1 and 0 for a pack that is not here."""
        spans: npt.NDArray[np.int64] = np.array([self._span(name) for name in pack_ids], np.int64).reshape(-1, 2)
        return spans[:, 0], spans[:, 1]

    def _span(self, pack_id: str) -> tuple[int, int]:
        ordinal = self._known.get(pack_id)
        if ordinal is None:
            return -1, 0
        end = self._bases[ordinal + 1] if ordinal + 1 < len(self._bases) else self._count
        return self._bases[ordinal], end - self._bases[ordinal]


class UnitIndex(UnitTable):
    """A table in which ids are looked up. It holds at most `max_units`: what does not fit is only stored twice."""

    def __init__(self, max_units: int = DEFAULT_MAX_UNITS):
        super().__init__()
        self.max_units = max_units
        self._sorted: list[tuple[npt.NDArray[np.uint64], Int64s]] = []  # runs of (prefixes ascending, their positions)

    def add_pack(self, pack_id: str, ids: Ids) -> bool:
        """False, and nothing added, if the index is full or has the pack."""
        if len(self) + len(ids) > self.max_units or pack_id in self._known:
            return False
        self.open_pack(pack_id)
        self.extend(ids)
        return True

    def extend(self, ids: Ids) -> None:
        first = len(self)
        super().extend(ids)
        there = np.flatnonzero(ids.any(axis=1))
        if len(there):
            self._merge(ids[there, 0], first + there)

    def lookup(self, ids: Ids) -> Int64s:
        """Position of each id, the oldest where there are several; -1 where there is none."""
        found = np.full(len(ids), -1, np.int64)
        for prefixes, positions in self._sorted:
            open_ = np.flatnonzero(found < 0)
            at = np.searchsorted(prefixes, ids[open_, 0])
            at[at == len(prefixes)] = 0
            alike = np.flatnonzero(prefixes[at] == ids[open_, 0])
            candidates = positions[at[alike]]
            same = (self._ids[candidates] == ids[open_[alike]]).all(axis=1)
            found[open_[alike[same]]] = candidates[same]
        self.release()
        return found

    def release(self) -> None:
        super().release()
        if len(self._sorted) * _RUN_UNITS * 16 > _RESIDENT_BYTES:
            for run in self._sorted:
                for column in run:
                    spill.release(column)

    def locations_of(self, positions: Int64s) -> Locations:
        """Locations whose ordinals count in `pack_ids`."""
        bases = np.asarray(self._bases, np.int64)
        ordinals = np.searchsorted(bases, positions, side="right") - 1
        return (ordinals << UNIT_BITS) | (positions - bases[ordinals])

    def _merge(self, prefixes: npt.NDArray[np.uint64], positions: Int64s) -> None:
        while self._sorted and len(self._sorted[-1][0]) < min(2 * len(prefixes), _RUN_UNITS + 1 - len(prefixes)):
            older = self._sorted.pop()
            prefixes, positions = np.concatenate((older[0], prefixes)), np.concatenate((older[1], positions))
        order = np.argsort(prefixes, kind="stable")  # older positions first among equals
        run = prefixes[order], positions[order]
        if len(order) * 2 > _RUN_UNITS:  # it will not grow any more
            run = spill.copy(run[0], in_memory=0), spill.copy(run[1], in_memory=0)
        self._sorted.append(run)
