"""Locations of units and their run-length form.

A location is one int64: ZERO, BASE, or pack ordinal * 65536 + unit in that pack. The ordinal counts in the manifest's table of packs.
An extent is a run of units that are all ZERO, all BASE, or consecutive units of one pack.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import spill

ZERO = -1
BASE = -2
UNIT_BITS = 16
UNIT_MASK = (1 << UNIT_BITS) - 1
PACK_UNITS = 4096  # a pack numbers at most so many units

Locations = npt.NDArray[np.int64]
Int64s = npt.NDArray[np.int64]

_COLUMNS = (("gap", "<u4"), ("count", "<u4"), ("ordinal", "<i4"), ("unit", "<u2"))
EXTENT_BYTES = sum(np.dtype(kind).itemsize for _, kind in _COLUMNS)


class ExtentError(Exception):
    """Extents that do not fit their image or their table of packs."""


@dataclass(frozen=True, eq=False)
class Runs:
    """`counts[i]` units from unit `starts[i]` on lie at `locations[i]` and the following places (or all at ZERO, all at BASE)."""

    starts: Int64s
    counts: Int64s
    locations: Locations

    def __len__(self) -> int:
        return len(self.starts)


Chooser = Callable[[int, Locations], npt.NDArray[np.bool_]]  # first unit and the locations from there on: which of them are meant


def runs_of(units: Int64s, locations: Locations) -> Runs:
    """The runs of ascending `units` that lie at `locations` (same length)."""
    return _joined(Runs(units, np.ones(len(units), np.int64), locations))


def runs_where(locations: Locations, chosen: Chooser, *beside: Locations) -> Runs:
    """The runs of the chosen units of a whole map, which is walked in pieces; `beside` are maps that `chosen` looks into."""
    found = []
    for first, piece in spill.pieces(locations, *beside):
        units = np.flatnonzero(chosen(first, piece))
        found.append(runs_of(first + units, piece[units]))
    columns = [np.concatenate([getattr(runs, name) for runs in found]) for name in ("starts", "counts", "locations")]
    return _joined(Runs(*columns))


def _joined(runs: Runs) -> Runs:
    """The same with neighbours made one where the second goes on as the first ends."""
    if len(runs) == 0:
        return runs
    step = (runs.locations[:-1] >= 0) * runs.counts[:-1]
    joins = (runs.starts[1:] == runs.starts[:-1] + runs.counts[:-1]) & (runs.locations[1:] == runs.locations[:-1] + step)
    firsts = np.concatenate(([0], np.flatnonzero(~joins) + 1))
    return Runs(runs.starts[firsts], np.add.reduceat(runs.counts, firsts), runs.locations[firsts])


def apply_runs(runs: Runs, target: Locations) -> None:
    """Write the runs into a map of one location per unit."""
    for part in _portions(runs):
        within = np.arange(int(part.counts.sum())) - np.repeat(np.cumsum(part.counts) - part.counts, part.counts)
        step = np.repeat((part.locations >= 0).astype(np.int64), part.counts)
        target[np.repeat(part.starts, part.counts) + within] = np.repeat(part.locations, part.counts) + within * step
        spill.release(target)


def _portions(runs: Runs) -> Iterator[Runs]:
    """The same in parts of about a piece's units, a longer run cut."""
    first, held = 0, 0
    for at, count in enumerate(runs.counts.tolist()):
        if held + count > spill.PIECE_UNITS:
            yield Runs(runs.starts[first:at], runs.counts[first:at], runs.locations[first:at])
            first, held = at, 0
        if count > spill.PIECE_UNITS:
            yield from _cut(int(runs.starts[at]), count, int(runs.locations[at]))
            first = at + 1
        else:
            held += count
    yield Runs(runs.starts[first:], runs.counts[first:], runs.locations[first:])


def _cut(start: int, count: int, location: int) -> Iterator[Runs]:
    for done in range(0, count, spill.PIECE_UNITS):
        row = start + done, min(spill.PIECE_UNITS, count - done), location + done * (location >= 0)
        yield Runs(*(np.array([value], np.int64) for value in row))


def encode_runs(runs: Runs) -> bytes:
    """Column after column (gap since the last run's end, count, ordinal or ZERO/BASE, unit): compresses well."""
    gaps = runs.starts - np.concatenate(([0], (runs.starts + runs.counts)[:-1])) if len(runs) else runs.starts
    special = runs.locations < 0
    ordinals = np.where(special, runs.locations, runs.locations >> UNIT_BITS)
    units = np.where(special, 0, runs.locations & UNIT_MASK)
    values = (gaps, runs.counts, ordinals, units)
    return b"".join(value.astype(kind).tobytes() for value, (_, kind) in zip(values, _COLUMNS, strict=True))


def decode_runs(raw: bytes, image_units: int, packs: int, *, has_base: bool) -> Runs:
    """The inverse. ExtentError if a run leaves the image, names a pack that is not in the table, or the base where there is none."""
    extents = len(raw) // EXTENT_BYTES
    columns, at = [], 0
    for _, kind in _COLUMNS:
        column = np.frombuffer(raw, kind, extents, at)
        columns.append(column.astype(np.int64))
        at += column.nbytes
    gaps, counts, ordinals, units = columns
    # At most 2^26 extents of values below 2^33: these sums cannot overflow.
    ends = np.cumsum(gaps + counts)
    runs = Runs(ends - counts, counts, np.where(ordinals < 0, ordinals, (ordinals << UNIT_BITS) | units))
    lowest = BASE if has_base else ZERO
    fits = (counts >= 1) & (ordinals >= lowest) & (ordinals < packs)
    fits &= (ordinals < 0) | (units + counts <= PACK_UNITS)
    if not fits.all() or (extents and int(ends[-1]) > image_units):
        raise ExtentError
    return runs
