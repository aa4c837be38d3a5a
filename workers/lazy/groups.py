"""The units of an image by the stored frame that they come out of: what is decoded together is had together, once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from checkpoints_app.store.errors import IntegrityError
from checkpoints_app.store.extents import Int64s, Locations
from checkpoints_app.store.packs import PackIndex
from checkpoints_app.store.restore import by_pack

_NOWHERE = -1  # a zero unit: there is nothing to be had


@dataclass(frozen=True, eq=False)
class Groups:
    """Group g: units `targets[starts[g]:starts[g + 1]]` of the image are units `sources[...]` of pack `pack_ids[packs[g]]`.

    Groups are numbered by pack, and within one as its frames lie.
    """

    pack_ids: tuple[str, ...]
    packs: npt.NDArray[np.int32]
    starts: Int64s
    sources: Int64s
    targets: Int64s
    of_unit: npt.NDArray[np.int32]  # the group of each unit of the image

    def __len__(self) -> int:
        return len(self.packs)

    def of(self, units: Int64s) -> Int64s:
        """The groups of these units, each once, in the units' order."""
        found = self.of_unit[units]
        _, first = np.unique(found, return_index=True)
        ordered = found[np.sort(first)].astype(np.int64)
        return np.asarray(ordered[ordered != _NOWHERE])

    def within(self, first_unit: int, end_unit: int) -> Int64s:
        """The groups of a range of units, ascending."""
        found = np.unique(self.of_unit[first_unit:end_unit]).astype(np.int64)
        return np.asarray(found[found != _NOWHERE])

    def runs(self, groups: Int64s, longest: int) -> Iterator[Int64s]:
        """These groups, in order, cut where the pack changes and where so many are together."""
        first = 0
        for at in range(1, len(groups) + 1):
            if at == len(groups) or at - first == longest or self.packs[groups[at]] != self.packs[groups[first]]:
                yield groups[first:at]
                first = at

    def units(self, groups: Int64s) -> tuple[Int64s, Int64s]:
        """(sources ascending, their targets) of groups of one pack."""
        spans = [np.arange(self.starts[group], self.starts[group + 1]) for group in np.sort(groups).tolist()]
        chosen = np.concatenate(spans)
        return self.sources[chosen], self.targets[chosen]


def grouped(packs: Sequence[str], locations: Locations, indexes: Mapping[str, PackIndex]) -> Groups:
    """IntegrityError if a unit that is needed is not in its pack."""
    pack_ids = list[str]()
    of_pack, starts, sources, targets = [], [], [], []
    done = 0
    for pack_id, units, wanted in by_pack(packs, locations, np.flatnonzero(locations >= 0)):
        index = indexes[pack_id]
        positions = index.positions_of(units)
        if (positions < 0).any():
            raise IntegrityError("pack", pack_id, "a unit that is needed is not in it any more")
        frames = np.searchsorted(index.first_units, positions, side="right")
        cuts = np.concatenate(([0], np.flatnonzero(np.diff(frames)) + 1))
        of_pack.append(np.full(len(cuts), len(pack_ids), np.int32))
        starts.append(done + cuts)
        sources.append(units)
        targets.append(wanted)
        pack_ids.append(pack_id)
        done += len(units)
    starts.append(np.array([done]))
    begins, all_targets = np.concatenate(starts), np.concatenate([np.empty(0, np.int64), *targets])
    of_unit = np.full(len(locations), _NOWHERE, np.int32)
    of_unit[all_targets] = np.repeat(np.arange(len(begins) - 1, dtype=np.int32), np.diff(begins))
    joined = np.concatenate([np.empty(0, np.int32), *of_pack]), begins, np.concatenate([np.empty(0, np.int64), *sources])
    return Groups(tuple(pack_ids), *joined, all_targets, of_unit)
