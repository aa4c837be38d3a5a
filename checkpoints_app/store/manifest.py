"""The manifest: what a checkpoint consists of and where each unit lies. Sealed form: manifest_codec.py."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from . import spill
from .extents import BASE, PACK_UNITS, UNIT_BITS, UNIT_MASK, ZERO, Int64s, Locations, runs_where
from .ids import UNIT_BYTES, check_base, checkpoint_digest, units_of

IMAGE_NAMES = ("memory", "disk", "devices")
MAX_IMAGE_UNITS = 1 << 26  # 256 GiB
FULL_EVERY = 8  # of a line of manifests each 8th is complete: a load reads at most 8 objects


@dataclass(frozen=True, eq=False)
class ImageMap:
    """One image: `locations` has one entry per unit and is read-only."""

    length_bytes: int
    base: str | None  # "image <digest>", or None
    root: str
    locations: Locations

    def runs_at(self, place: int) -> tuple[Int64s, Int64s]:
        """First units and lengths of the runs that are ZERO, or that are BASE."""
        runs = runs_where(self.locations, lambda _, piece: piece == place)
        return runs.starts, runs.counts

    def zero_runs(self) -> tuple[Int64s, Int64s]:
        """What a restore must clear itself where its target is not empty, as over a base."""
        return self.runs_at(ZERO)

    def base_runs(self) -> tuple[Int64s, Int64s]:
        """What is to be read from the base image."""
        return self.runs_at(BASE)


@dataclass(frozen=True, eq=False)
class Manifest:
    """A checkpoint's contents. All ids and digests are 64 hex digits."""

    manifest_id: str
    ancestors: tuple[str, ...]  # manifests that this one's stored form builds on, nearest first; at most 7
    facts: Mapping[str, Any]  # given at the save; "pin" and "watermarks" are part of the digest
    digest: str
    packs: tuple[str, ...]  # the table that locations count in; may name packs that no unit lies in any more
    images: Mapping[str, ImageMap]

    @cached_property
    def referenced_packs(self) -> tuple[str, ...]:
        """The packs that hold at least one unit of this checkpoint, in the table's order."""
        return tuple(self.packs[ordinal] for ordinal in referenced_ordinals(self.images))

    def needed_units(self) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        """Each pack that is referenced, with the set of its units that this checkpoint needs: one entry per unit up to the last."""
        needed = spill.empty(len(self.packs) * PACK_UNITS, np.bool_)
        for start, piece in spill.pieces(needed):
            needed[start : start + len(piece)] = False
        for image in self.images.values():
            for _, piece in spill.pieces(image.locations, needed):
                held = piece[piece >= 0]
                needed[(held >> UNIT_BITS) * PACK_UNITS + (held & UNIT_MASK)] = True
        for ordinal, pack_id in enumerate(self.packs):
            units = needed[ordinal * PACK_UNITS : (ordinal + 1) * PACK_UNITS]
            if units.any():
                yield pack_id, units[: int(np.flatnonzero(units)[-1]) + 1]

    @property
    def logical_bytes(self) -> int:
        return sum(image.length_bytes for image in self.images.values())


def referenced_ordinals(images: Mapping[str, ImageMap]) -> list[int]:
    found: set[int] = set()
    for image in images.values():
        for _, piece in spill.pieces(image.locations):
            found.update(np.unique(piece[piece >= 0] >> UNIT_BITS).tolist())
    return sorted(found)


def digest_of(facts: Mapping[str, Any], roots: Mapping[str, str]) -> str:
    """ValueError unless the facts hold a pin (text) and watermarks (whole numbers by name)."""
    pin, watermarks = (facts.get("pin"), facts.get("watermarks")) if isinstance(facts, Mapping) else (None, None)
    numbers_only = isinstance(watermarks, Mapping) and all(type(value) is int for value in watermarks.values())
    if not isinstance(pin, str) or not isinstance(watermarks, Mapping) or not numbers_only:
        raise ValueError('the facts of a checkpoint hold "pin" (text) and "watermarks" (whole numbers by name)')
    return checkpoint_digest(pin, roots, watermarks)


def check_image(name: str, length_bytes: int, base: str | None) -> int:
    """The number of units, or ValueError."""
    if name not in IMAGE_NAMES:
        raise ValueError(f"an image is one of {', '.join(IMAGE_NAMES)}")
    units = units_of(length_bytes) if type(length_bytes) is int else 0
    if not 0 < units <= MAX_IMAGE_UNITS:
        raise ValueError(f"an image has 1 byte to {MAX_IMAGE_UNITS * UNIT_BYTES} bytes, not {length_bytes}")
    if base is not None:
        check_base(base)
    return units
