"""The dedup index of a whole account: the lineage's tables, and those of other packs as soon as the compact index names them."""

from collections.abc import Callable

import numpy as np

from .compact_index import CompactIndex
from .errors import IntegrityError, MissingObjectError
from .extents import Int64s
from .ids import Ids
from .index import DEFAULT_MAX_UNITS, UnitIndex
from .packs import PackIndex

MAX_LOADED = 256  # packs looked into for one save: at most so many reads, and 32 MiB of ids


class AccountIndex(UnitIndex):
    """A `UnitIndex` in which `lookup` may read packs' tables. What it does not find, for whatever reason, is only stored twice.

    `load` reads the table of a pack that may be used, or returns None for one that may not (erased, corrupt, being rewritten). Its
    IntegrityError and MissingObjectError count as None; a BackendError is raised.
    """

    def __init__(self, compact: CompactIndex, load: Callable[[str], PackIndex | None], max_units: int = DEFAULT_MAX_UNITS):
        super().__init__(max_units)
        self._compact, self._load = compact, load
        self._tried: set[str] = set()

    def lookup(self, ids: Ids) -> Int64s:
        found = super().lookup(ids)
        missing = np.flatnonzero(found < 0)
        if len(missing) and self._learn(ids[missing]):
            found[missing] = super().lookup(ids[missing])
        return found

    def _learn(self, ids: Ids) -> bool:
        """Whether a pack that may hold some of these came in."""
        learned = False
        for pack_id in self._compact.candidates(ids):
            if pack_id in self._known or pack_id in self._tried or len(self._tried) >= MAX_LOADED:
                continue
            self._tried.add(pack_id)
            try:
                table = self._load(pack_id)
            except (IntegrityError, MissingObjectError):
                continue
            learned |= table is not None and self.add_pack(pack_id, table.ids_by_number)
        return learned
