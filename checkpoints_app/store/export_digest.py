"""Digests of plain content: what is equal between two accounts, and two installations, that hold the same checkpoint.

- plain unit id: BLAKE3 of the unit, without a key; 32 zero bytes for a zero unit; for a base unit the id that every account gives it.
- plain root of an image: BLAKE3("KeepState plain image v1\\0" || length in bytes as u64 little-endian || one id per unit, in order).
- content digest: BLAKE3("KeepState export content v1\\0" || canonical JSON of pin and plain roots).

They are made and kept only inside a seal: whoever knows a page could test for it.
"""

from collections.abc import Mapping

import numpy as np
from blake3 import blake3

from .extents import Int64s
from .ids import UNIT_BYTES, ZERO_ID, Ids, base_unit_id, canonical_json, ids_from_bytes, type_ids, units_of
from .pages import Units

_ROOT_PREFIX = b"KeepState plain image v1\0"
_CONTENT_PREFIX = b"KeepState export content v1\0"
_PIECE_UNITS = 1 << 16


def content_digest(pin: str, plain_roots: Mapping[str, str]) -> str:
    return blake3(_CONTENT_PREFIX + canonical_json({"pin": pin, "roots": dict(plain_roots)})).hexdigest()


def plain_ids(units: Units) -> Ids:
    """One id per row of shape (n, 4096)."""
    flat, live = units.reshape(-1).data, np.flatnonzero(units.any(axis=1))
    ids: Ids = np.zeros((len(units), 4), type_ids)
    ids[live] = ids_from_bytes(b"".join([blake3(flat[at : at + UNIT_BYTES]).digest() for at in (live * UNIT_BYTES).tolist()]))
    return ids


class PlainRoot:
    """The root of one image whose units come in order. One byte of memory per unit where there is a base."""

    def __init__(self, length_bytes: int, base: str | None):
        self._hasher = blake3(_ROOT_PREFIX + length_bytes.to_bytes(8, "little"))
        self._units, self._done = units_of(length_bytes), 0
        self._base_id = ids_from_bytes(base_unit_id(base) if base is not None else ZERO_ID)
        self._zero = np.zeros(self._units if base is not None else 0, bool)

    def zeros(self, numbers: Int64s) -> None:
        """These units of an image with a base are zero. Prerequisite: before the first `add`."""
        self._zero[numbers] = True

    def any_zero(self, numbers: Int64s) -> bool:
        """Whether one of these was said to be zero."""
        return len(self._zero) > 0 and bool(self._zero[numbers].any())

    def add(self, numbers: Int64s, units: Units) -> None:
        """Units that are neither zero nor the base's. Prerequisite: numbers ascend over all calls."""
        ids = plain_ids(units)
        cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
        for part, piece in zip(np.split(numbers, cuts), np.split(ids, cuts), strict=True):
            self._fill(int(part[0]))
            self._hasher.update(np.ascontiguousarray(piece, type_ids).tobytes())
            self._done += len(part)

    def finish(self) -> str:
        self._fill(self._units)
        return self._hasher.hexdigest()

    def _fill(self, end: int) -> None:
        """What no call named: zero, or the base's."""
        while self._done < end:
            until = min(end, self._done + _PIECE_UNITS)
            ids: Ids = np.zeros((until - self._done, 4), type_ids)
            if len(self._zero):
                ids[~self._zero[self._done : until]] = self._base_id
            self._hasher.update(ids.tobytes())
            self._done = until
