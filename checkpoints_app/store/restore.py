"""An image out of its packs: each needed frame is read once, and every unit is compared with its id before anyone sees it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from . import spill
from .backends.backend import Backend
from .errors import MissingObjectError
from .extents import UNIT_BITS, UNIT_MASK, Int64s, Locations
from .generations import MOVES, Generations
from .ids import UNIT_BYTES, unit_ids
from .keys import AccountKeys
from .manifest import Manifest
from .names import object_key
from .packs import PackIndex, decode_frames, opener_of
from .reader import PackIndexes, load_indexes_of, load_pack_indexes, verify_root
from .seal import Kind
from .threads import thread_pool

Sink = Callable[[int, memoryview], None]  # first unit, bytes; called by several threads at once, never twice for a unit

_READ_BYTES = 1 << 20  # neighbouring frames are read and decoded together up to so many stored bytes
_READ_FRAMES = 32  # and up to so many frames: 4 MiB plain
_WINDOW_UNITS = 1 << 19  # 2 GiB of an image are restored at a time: what is known per unit stays below 30 MiB
_RUN_UNITS = 256  # so many units at most go to the sink at once


def restore_image(
    backend: Backend,
    keys: AccountKeys,
    account_id: str,
    manifest: Manifest,
    name: str,
    sink: Sink,
    *,
    threads: int = 2,
    indexes: PackIndexes | None = None,
    generations: Generations | None = None,
) -> None:
    """Hand every unit of the image that lies in a pack to `sink`, in any order.

    Zero units and units equal to the base's are not handed over: the target begins all zero, or as the base with `zero_runs` cleared.
    The root is checked before the first unit, each unit before it is handed over. The last one is cut at the image's end.
    Failure (IntegrityError, MissingObjectError, BackendError, or what `sink` raises): the target is incomplete and to be thrown away.
    Memory: per thread 2 MiB of stored bytes, a frame and a run; 30 MiB for a window; and of the indexes what does not lie outside.
    """
    image = manifest.images[name]
    if indexes is None:
        indexes = load_pack_indexes(backend, keys, account_id, manifest, generations=generations)
    verify_root(keys, account_id, manifest, name, indexes.units)
    for start in range(0, len(image.locations), _WINDOW_UNITS):
        held = start + np.flatnonzero(image.locations[start : start + _WINDOW_UNITS] >= 0)
        restore_units(backend, keys, account_id, manifest, name, held, sink, threads=threads, indexes=indexes, generations=generations)
        spill.release(image.locations)
        indexes.units.release()


def restore_units(
    backend: Backend,
    keys: AccountKeys,
    account_id: str,
    manifest: Manifest,
    name: str,
    units: Int64s,
    sink: Sink,
    *,
    threads: int = 2,
    indexes: PackIndexes,
    generations: Generations | None = None,
) -> None:
    """As `restore_image`, of these units alone, each of which lies in a pack. Prerequisite: `verify_roots` returned these indexes."""
    image = manifest.images[name]
    with thread_pool(threads, "restore") as pool:
        jobs = []
        for pack_id, sources, targets in by_pack(manifest.packs, image.locations, units):
            reader = PackReader(backend, keys, account_id, indexes[pack_id], generations)
            jobs.append(pool.submit(reader.run, sources, targets, image.length_bytes, sink))
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
        finally:
            pool.shutdown(cancel_futures=True)
    for done in jobs:
        if not done.cancelled():
            done.result()


def by_pack(packs: Sequence[str], locations: Locations, units: Int64s) -> Iterator[tuple[str, Int64s, Int64s]]:
    """(pack, units of it ascending, the image's units that they are). `packs` is the table that `locations`, an image's map, counts in."""
    order = units[np.argsort(locations[units], kind="stable")]
    ordered = locations[order]
    cuts = np.flatnonzero(np.diff(ordered >> UNIT_BITS)) + 1
    for part, targets in zip(np.split(ordered, cuts), np.split(order, cuts), strict=True):
        if len(part):
            yield packs[int(part[0]) >> UNIT_BITS], part & UNIT_MASK, targets


@dataclass(eq=False, repr=False)
class PackReader:
    """Reads units of one pack, each verified; where the pack moves to its next generation meanwhile, it goes on there. Any thread."""

    backend: Backend
    keys: AccountKeys
    account_id: str
    index: PackIndex
    generations: Generations | None

    def run(self, sources: Int64s, targets: Int64s, length_bytes: int, sink: Sink) -> None:
        """`sources` are unit numbers of the pack, ascending; `targets` the image's units that they are."""
        done = 0
        for _ in range(MOVES):
            try:
                for stop, plain, within in self._frames(sources[done:]):
                    _emit(plain, within, targets[done : done + stop], length_bytes, sink)
                    done += stop
                return
            except MissingObjectError:
                self._follow(sources[done:])
        raise MissingObjectError(object_key(self.account_id, Kind.PACK, self.index.pack_id, self.index.generation))

    def _follow(self, needed: Int64s) -> None:
        """Take up the pack's generation of now. MissingObjectError if it did not move, or the object is not there either.

        IntegrityError if it does not list the same content under the numbers that are needed: against those the root was checked.
        """
        before = self.index
        (self.index,) = load_indexes_of(
            self.backend, self.keys, self.account_id, [before.pack_id], generations=self.generations, threads=1
        ).values()
        if not np.array_equal(self.index.ids_by_number[needed], before.ids_by_number[needed]):
            raise opener_of(self.keys, self.account_id, self.index).refusal("it lists other units than the generation before it")

    def _frames(self, sources: Int64s) -> Iterator[tuple[int, memoryview, Int64s]]:
        """Frame after frame: how many of the sources lie in it, its plain units, and which of them the sources are."""
        index, opener = self.index, opener_of(self.keys, self.account_id, self.index)
        positions = index.positions_of(sources)
        if (positions < 0).any():
            raise opener.refusal("a unit that is needed is not in it any more")
        frames = np.searchsorted(index.first_units, positions, side="right") - 1
        needed, starts = np.unique(frames, return_index=True)
        ends = np.append(starts[1:], len(frames))
        for first, last in _reads(needed, index.offsets):
            numbers = needed[first:last].tolist()
            data, skipped = self._read(numbers[0], numbers[-1]), int(index.offsets[numbers[0]])
            sealed = [data[int(index.offsets[frame]) - skipped : int(index.offsets[frame + 1]) - skipped] for frame in numbers]
            for at, plain in zip(range(first, last), decode_frames(opener, index, numbers, sealed), strict=True):
                within = positions[starts[at] : ends[at]] - index.first_units[needed[at]]
                self._verify(int(needed[at]), plain, within)
                yield int(ends[at] - starts[at]), plain, within

    def _read(self, first: int, last: int) -> memoryview:
        index = self.index
        start, end = int(index.offsets[first]), int(index.offsets[last + 1])
        data = self.backend.read(object_key(self.account_id, Kind.PACK, index.pack_id, index.generation), start, end - start)
        if len(data) != end - start:
            raise opener_of(self.keys, self.account_id, index).refusal("it ends within a frame")
        return memoryview(data)

    def _verify(self, frame: int, plain: memoryview, within: Int64s) -> None:
        units = np.unique(within)
        ids = unit_ids(self.keys.id_key.reveal(), plain, (units * UNIT_BYTES).tolist())
        if not np.array_equal(ids, self.index.ids[self.index.first_units[frame] + units]):
            raise opener_of(self.keys, self.account_id, self.index).refusal(f"a unit of frame {frame} is not the one that its id says")


def _reads(needed: Int64s, offsets: Int64s) -> Iterator[tuple[int, int]]:
    """Neighbours among the needed frames, as slices of `needed`, none over the read size unless a frame alone is."""
    first = 0
    for at in range(1, len(needed) + 1):
        apart = at == len(needed) or needed[at] != needed[at - 1] + 1
        if apart or at - first == _READ_FRAMES or offsets[needed[at] + 1] - offsets[needed[first]] > _READ_BYTES:
            yield first, at
            first = at


def _emit(plain: memoryview, within: Int64s, targets: Int64s, length_bytes: int, sink: Sink) -> None:
    order = np.argsort(targets, kind="stable")
    sources, targets = within[order], targets[order]
    units = np.frombuffer(plain, np.uint8).reshape(-1, UNIT_BYTES)
    bounds = [0, *(np.flatnonzero(np.diff(targets) != 1) + 1).tolist(), len(targets)]
    for begin, end in pairwise(bounds):
        for start in range(begin, end, _RUN_UNITS):
            stop = min(end, start + _RUN_UNITS)
            source, target = int(sources[start]), int(targets[start])
            if (np.diff(sources[start:stop]) == 1).all():
                data = plain[source * UNIT_BYTES : (source + stop - start) * UNIT_BYTES]
            else:
                data = units[sources[start:stop]].reshape(-1).data
            sink(target, data[: length_bytes - target * UNIT_BYTES])
