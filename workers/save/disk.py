"""A capture's disk as the store wants it: which units the frozen overlays hold, which of them equal the base image's, which are zero."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workers.cache.image_sum import data_extents
from workers.machine.driver import PAGE_BYTES, MachineError
from workers.machine.qemu.extents import allocated_extents
from workers.save.memory import BATCH_PAGES, Batch, read_whole

Int64s = npt.NDArray[np.int64]
_ZERO = -1


@dataclass(frozen=True)
class WrittenUnits:
    """The newest content of every unit that a stack of overlays holds. `units` ascend; `layers` and `offsets` say where the bytes lie."""

    files: Sequence[Path]
    units: Int64s
    layers: Int64s
    offsets: Int64s

    def batches(self) -> Iterator[Batch]:
        """Units with their bytes. The bytes are valid until the next batch is asked for."""
        buffer = memoryview(bytearray(BATCH_PAGES * PAGE_BYTES))
        with ExitStack() as stack:
            fds = [stack.enter_context(open(file, "rb", buffering=0)).fileno() for file in self.files]
            for start in range(0, len(self.units), BATCH_PAGES):
                part = slice(start, start + BATCH_PAGES)
                view = buffer[: len(self.units[part]) * PAGE_BYTES]
                _gather(fds, self.layers[part], self.offsets[part], view)
                yield self.units[part], view

    def where(self, chosen: npt.NDArray[np.bool_]) -> "WrittenUnits":
        return WrittenUnits(self.files, self.units[chosen], self.layers[chosen], self.offsets[chosen])


def read_overlays(overlays: Sequence[Path]) -> tuple[WrittenUnits, Int64s]:
    """(units with content, units that are zero) of overlays given oldest first; the newest wins. Raises MachineError capture_failed."""
    parts = [part for layer, overlay in enumerate(overlays) for part in _extents(layer, overlay)]
    units, layers, offsets = (
        np.concatenate(column) if parts else np.empty(0, np.int64) for column in (zip(*parts, strict=True) if parts else ((), (), ()))
    )
    order = np.argsort(units, kind="stable")  # layers ascend within a unit
    newest = order[np.append(np.diff(units[order]) != 0, True)] if len(order) else order
    found = WrittenUnits(overlays, units[newest], layers[newest], offsets[newest])
    zero = found.offsets == _ZERO
    return found.where(~zero), found.units[zero]


def split_by_base(written: WrittenUnits, base: Path) -> tuple[WrittenUnits, Int64s]:
    """(units that differ from the base image's, units equal to them)."""
    equal = np.zeros(len(written.units), bool)
    base_buffer = memoryview(bytearray(BATCH_PAGES * PAGE_BYTES))
    with open(base, "rb", buffering=0) as file:
        done = 0
        for units, content in written.batches():
            view = base_buffer[: len(content)]
            _gather([file.fileno()], np.zeros(len(units), np.int64), units * PAGE_BYTES, view)
            same = np.frombuffer(view, np.uint8).reshape(-1, PAGE_BYTES) == np.frombuffer(content, np.uint8).reshape(-1, PAGE_BYTES)
            equal[done : done + len(units)] = same.all(axis=1)
            done += len(units)
    return written.where(~equal), written.units[equal]


def zero_units_of(base: Path, units: Int64s) -> npt.NDArray[np.bool_]:
    """Which of these units are zero in the base image. A unit that equals the base's is always called so, however it came to be written:
    else one content would have two roots.
    """
    zero = np.ones(len(units), bool)
    buffer = memoryview(bytearray(BATCH_PAGES * PAGE_BYTES))
    with open(base, "rb", buffering=0) as file:
        for start, end in data_extents(file.fileno()):  # what lies between is zero without being read
            low, high = np.searchsorted(units, [start // PAGE_BYTES, -(-end // PAGE_BYTES)])
            for first in range(low, high, BATCH_PAGES):
                part = slice(first, min(first + BATCH_PAGES, high))
                view = buffer[: len(units[part]) * PAGE_BYTES]
                _gather([file.fileno()], np.zeros(len(units[part]), np.int64), units[part] * PAGE_BYTES, view)
                zero[part] = ~np.frombuffer(view, np.uint8).reshape(-1, PAGE_BYTES).any(axis=1)
    return zero


def _extents(layer: int, overlay: Path) -> Iterator[tuple[Int64s, Int64s, Int64s]]:
    for extent in allocated_extents(overlay):
        if extent.offset % PAGE_BYTES or extent.length % PAGE_BYTES:
            raise MachineError("capture_failed", f"The overlay {overlay.name} holds a part of a unit; it was not written by our options.")
        units = np.arange(extent.offset // PAGE_BYTES, (extent.offset + extent.length) // PAGE_BYTES)
        if extent.file_offset is None:
            yield units, np.full(len(units), layer), np.full(len(units), _ZERO)
        else:
            yield units, np.full(len(units), layer), extent.file_offset + (units - units[0]) * PAGE_BYTES


def _gather(fds: Sequence[int], layers: Int64s, offsets: Int64s, view: memoryview) -> None:
    """Read units from their places into one buffer, neighbours together."""
    joins = (np.diff(offsets) == PAGE_BYTES) & (np.diff(layers) == 0)
    cuts = [0, *(np.flatnonzero(~joins) + 1).tolist(), len(offsets)]
    for first, last in itertools.pairwise(cuts):
        if last > first:
            read_whole(fds[int(layers[first])], view[first * PAGE_BYTES : last * PAGE_BYTES], int(offsets[first]))
