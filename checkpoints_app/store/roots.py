"""From locations back to unit ids, and to the root of an image."""

from collections.abc import Iterator, Sequence

import numpy as np

from . import spill
from .errors import LocationError
from .extents import BASE, UNIT_BITS, UNIT_MASK, Locations
from .ids import Ids, base_unit_id, ids_from_bytes, image_root, type_ids
from .index import UnitTable

_PIECE_UNITS = 1 << 16  # 2 MiB of ids at a time


class Gather:
    """Unit ids of locations whose ordinals count in `packs`; each pack is looked for in the tables in turn."""

    def __init__(self, packs: Sequence[str], tables: Sequence[UnitTable]):
        self._tables = [(table, *table.spans_of(packs)) for table in tables]

    def ids(self, locations: Locations, base: str | None) -> Ids:
        """One id per location, shape (n, 4). LocationError as said; prerequisite: ordinals lie in `packs`."""
        ids: Ids = np.zeros((len(locations), 4), type_ids)
        if base is not None:
            ids[locations == BASE] = ids_from_bytes(base_unit_id(base))
        todo = np.flatnonzero(locations >= 0)
        for table, bases, sizes in self._tables:
            ordinals, units = locations[todo] >> UNIT_BITS, locations[todo] & UNIT_MASK
            here = units < sizes[ordinals]
            ids[todo[here]] = table.ids_at(bases[ordinals[here]] + units[here])
            todo = todo[~here]
        if len(todo) or not ids[locations >= 0].any(axis=1).all():  # a zero id: the pack does not have that unit any more
            raise LocationError
        return ids

    def root(self, length_bytes: int, base: str | None, locations: Locations) -> str:
        def pieces() -> Iterator[Ids]:
            for start in range(0, len(locations), _PIECE_UNITS):
                yield self.ids(locations[start : start + _PIECE_UNITS], base)
                spill.release(locations)
                for table, _, _ in self._tables:
                    table.release()

        return image_root(length_bytes, pieces())
