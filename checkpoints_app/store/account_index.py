"""The dedup index of a whole account: the lineage's tables, and those of other packs as soon as the compact index names them."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from .compact_index import CompactIndex
from .extents import Int64s
from .ids import Ids
from .index import DEFAULT_MAX_UNITS, UnitIndex
from .packs import PackIndex

MAX_LOADED = 256  # packs looked into for one save: at most so many reads, and 32 MiB of ids


class AccountIndex(UnitIndex):
    """A `UnitIndex` in which `lookup` may read packs' tables. What it does not find, for whatever reason, is only stored twice.

    `load` reads the tables of those packs that may be used and can be read, and leaves the others out (erased, corrupt, being rewritten).
    What it raises ends the lookup.
    """

    def __init__(
        self, compact: CompactIndex, load: Callable[[Sequence[str]], Iterable[PackIndex]], max_units: int = DEFAULT_MAX_UNITS
    ) -> None:
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
        named = [pack_id for pack_id in self._compact.candidates(ids) if pack_id not in self._known and pack_id not in self._tried]
        wanted = named[: MAX_LOADED - len(self._tried)]
        self._tried.update(wanted)
        learned = [self.add_pack(table.pack_id, table.ids_by_number) for table in self._load(wanted)] if wanted else []
        return any(learned)
