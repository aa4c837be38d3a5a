"""An image out of its packs: each needed frame is read once, and every unit is compared with its id before anyone sees it."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .backends.backend import Backend
from .extents import UNIT_BITS, Int64s
from .ids import UNIT_BYTES, unit_ids
from .keys import AccountKeys
from .manifest import ImageMap, Manifest
from .names import object_key
from .packs import PackIndex, decode_frame, pack_opener
from .reader import PackIndexes, load_pack_indexes, table_of, verify_root
from .seal import Kind, Opener

Sink = Callable[[int, memoryview], None]  # first unit, bytes; called by several threads at once, never twice for a unit

_READ_BYTES = 2 << 20  # neighbouring frames are read together up to so many bytes
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
) -> None:
    """Hand every unit of the image that lies in a pack to `sink`, in any order.

    Zero units and units equal to the base's are not handed over: the target begins all zero, or as the base with `zero_runs` cleared.
    The root is checked before the first unit, each unit before it is handed over. The last one is cut at the image's end.
    Failure (IntegrityError, MissingObjectError, BackendError, or what `sink` raises): the target is incomplete and to be thrown away.
    Memory: per thread 2 MiB of stored bytes, a frame and a run; and the indexes.
    """
    image = manifest.images[name]
    indexes = indexes if indexes is not None else load_pack_indexes(backend, keys, account_id, manifest)
    verify_root(keys, account_id, manifest, name, table_of(indexes))
    with ThreadPoolExecutor(threads, "restore") as pool:
        jobs = []
        for pack_id, sources, targets in _by_pack(manifest, image):
            opener = pack_opener(keys, account_id, pack_id)
            job = _PackRestore(backend, opener, keys.id_key.reveal(), object_key(account_id, Kind.PACK, pack_id), indexes[pack_id])
            jobs.append(pool.submit(job.run, sources, targets, image.length_bytes, sink))
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
        finally:
            pool.shutdown(cancel_futures=True)
    for done in jobs:
        if not done.cancelled():
            done.result()


def _by_pack(manifest: Manifest, image: ImageMap) -> Iterator[tuple[str, Int64s, Int64s]]:
    """(pack, units of it ascending, the image's units that they are)."""
    held = np.flatnonzero(image.locations >= 0)
    order = held[np.argsort(image.locations[held], kind="stable")]
    locations = image.locations[order]
    cuts = np.flatnonzero(np.diff(locations >> UNIT_BITS)) + 1
    for part, targets in zip(np.split(locations, cuts), np.split(order, cuts), strict=True):
        if len(part):
            yield manifest.packs[int(part[0]) >> UNIT_BITS], part & ((1 << UNIT_BITS) - 1), targets


@dataclass(frozen=True, eq=False, repr=False)
class _PackRestore:
    backend: Backend
    opener: Opener
    id_key: bytes
    key: str
    index: PackIndex

    def run(self, sources: Int64s, targets: Int64s, length_bytes: int, sink: Sink) -> None:
        frames = np.searchsorted(self.index.first_units, sources, side="right") - 1
        needed, starts = np.unique(frames, return_index=True)
        ends = np.append(starts[1:], len(frames))
        for first, last in _reads(needed, self.index.offsets):
            data = self._read(int(needed[first]), int(needed[last - 1]))
            for at in range(first, last):
                frame, chosen = int(needed[at]), slice(starts[at], ends[at])
                within = sources[chosen] - self.index.first_units[frame]
                plain = self._frame(frame, int(needed[first]), data, within)
                _emit(plain, within, targets[chosen], length_bytes, sink)

    def _read(self, first: int, last: int) -> memoryview:
        start, end = int(self.index.offsets[first]), int(self.index.offsets[last + 1])
        data = self.backend.read(self.key, start, end - start)
        if len(data) != end - start:
            raise self.opener.refusal("it ends within a frame")
        return memoryview(data)

    def _frame(self, frame: int, first_read: int, data: memoryview, within: Int64s) -> bytes:
        offsets, skipped = self.index.offsets, int(self.index.offsets[first_read])
        sealed = data[int(offsets[frame]) - skipped : int(offsets[frame + 1]) - skipped]
        plain = decode_frame(self.opener, self.index, frame, sealed)
        units = np.unique(within)
        ids = unit_ids(self.id_key, memoryview(plain), (units * UNIT_BYTES).tolist())
        if not np.array_equal(ids, self.index.ids[self.index.first_units[frame] + units]):
            raise self.opener.refusal(f"a unit of frame {frame} is not the one that its id says")
        return plain


def _reads(needed: Int64s, offsets: Int64s) -> Iterator[tuple[int, int]]:
    """Neighbours among the needed frames, as slices of `needed`, none over the read size unless a frame alone is."""
    first = 0
    for at in range(1, len(needed) + 1):
        apart = at == len(needed) or needed[at] != needed[at - 1] + 1
        if apart or offsets[needed[at] + 1] - offsets[needed[first]] > _READ_BYTES:
            yield first, at
            first = at


def _emit(plain: bytes, within: Int64s, targets: Int64s, length_bytes: int, sink: Sink) -> None:
    order = np.argsort(targets, kind="stable")
    sources, targets = within[order], targets[order]
    units = np.frombuffer(plain, np.uint8).reshape(-1, UNIT_BYTES)
    view = memoryview(plain)
    bounds = [0, *(np.flatnonzero(np.diff(targets) != 1) + 1).tolist(), len(targets)]
    for begin, end in pairwise(bounds):
        for start in range(begin, end, _RUN_UNITS):
            stop = min(end, start + _RUN_UNITS)
            source, target = int(sources[start]), int(targets[start])
            if (np.diff(sources[start:stop]) == 1).all():
                data = view[source * UNIT_BYTES : (source + stop - start) * UNIT_BYTES]
            else:
                data = units[sources[start:stop]].reshape(-1).data
            sink(target, data[: length_bytes - target * UNIT_BYTES])
