"""Locations of units and their run-length form.

A location is one int64: ZERO, BASE, or pack ordinal * 65536 + unit in that pack. The ordinal counts in the manifest's table of packs.
An extent is a run of units that are all ZERO, all BASE, or consecutive units of one pack.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ZERO = -1
BASE = -2
UNIT_BITS = 16
_MAX_UNIT = (1 << UNIT_BITS) - 1

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


def runs_of(units: Int64s, locations: Locations) -> Runs:
    """The runs of ascending `units` that lie at `locations` (same length)."""
    if len(units) == 0:
        return Runs(units, units, locations)
    step = (locations[:-1] >= 0).astype(np.int64)
    joins = (units[1:] == units[:-1] + 1) & (locations[1:] == locations[:-1] + step)
    firsts = np.concatenate(([0], np.flatnonzero(~joins) + 1))
    counts = np.diff(np.concatenate((firsts, [len(units)])))
    return Runs(units[firsts], counts, locations[firsts])


def apply_runs(runs: Runs, target: Locations) -> None:
    """Write the runs into a map of one location per unit."""
    total = int(runs.counts.sum())
    within = np.arange(total) - np.repeat(np.cumsum(runs.counts) - runs.counts, runs.counts)
    step = (runs.locations >= 0).astype(np.int64)
    target[np.repeat(runs.starts, runs.counts) + within] = np.repeat(runs.locations, runs.counts) + within * np.repeat(step, runs.counts)


def encode_runs(runs: Runs) -> bytes:
    """Column after column (gap since the last run's end, count, ordinal or ZERO/BASE, unit): compresses well."""
    gaps = runs.starts - np.concatenate(([0], (runs.starts + runs.counts)[:-1])) if len(runs) else runs.starts
    special = runs.locations < 0
    ordinals = np.where(special, runs.locations, runs.locations >> UNIT_BITS)
    units = np.where(special, 0, runs.locations & _MAX_UNIT)
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
    fits &= (ordinals < 0) | (units + counts - 1 <= _MAX_UNIT)
    if not fits.all() or (extents and int(ends[-1]) > image_units):
        raise ExtentError
    return runs
