"""Sets of units of one pack, as the database keeps them: bytes that say how many units the pack numbers and which of them are meant.

    empty                               no unit
    00, u16 units                       all of them
    01, u16 units, one bit per unit     these (little bit order)
    02, u16 units, zstd of the bits     these, where that is shorter

Numbers are little-endian. A pack numbers at most 4096 units, so a set has at most 515 bytes.
"""

import struct
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from .codec import CodecError, compress, decompress
from .extents import PACK_UNITS, Int64s

UnitSet = npt.NDArray[np.bool_]  # one entry per unit number of the pack

_HEAD = struct.Struct("<BH")
_ALL, _BITS, _PACKED = 0, 1, 2


class UnitSetError(ValueError):
    """Bytes that no `encode_units` has made."""


def all_units(count: int) -> UnitSet:
    return np.ones(count, np.bool_)


def as_set(numbers: Int64s, count: int | None = None) -> UnitSet:
    """The set of these numbers; over as many units as it takes, if no count is given."""
    found = np.zeros(int(numbers.max(initial=-1)) + 1 if count is None else count, np.bool_)
    found[numbers] = True
    return found


def encode_units(units: UnitSet) -> bytes:
    if not units.any():
        return b""
    if units.all():
        return _HEAD.pack(_ALL, len(units))
    bits = np.packbits(units, bitorder="little").tobytes()
    packed = compress(bits)
    return _HEAD.pack(_PACKED, len(units)) + packed if len(packed) < len(bits) else _HEAD.pack(_BITS, len(units)) + bits


def decode_units(stored: bytes | memoryview, count: int) -> UnitSet:
    """The set over `count` unit numbers. UnitSetError if the bytes are damaged or name a unit beyond them."""
    stored = bytes(stored)
    if not stored:
        return np.zeros(count, np.bool_)
    if len(stored) < _HEAD.size:
        raise UnitSetError("a set of units is cut")
    form, units = _HEAD.unpack_from(stored)
    if units > min(count, PACK_UNITS):
        raise UnitSetError("a set of units names more than its pack has")
    found = np.zeros(count, np.bool_)
    found[:units] = _bits(form, units, stored[_HEAD.size :])
    return found


def union(sets: Iterable[bytes | memoryview], count: int) -> UnitSet:
    found = np.zeros(count, np.bool_)
    for stored in sets:
        found |= decode_units(stored, count)
    return found


def _bits(form: int, units: int, body: bytes) -> UnitSet:
    size = -(-units // 8)
    if form == _ALL and not body:
        return np.ones(units, np.bool_)
    try:
        raw = decompress(body, size) if form == _PACKED else body
    except CodecError:
        raise UnitSetError("a set of units is damaged") from None
    if form not in (_BITS, _PACKED) or len(raw) != size:
        raise UnitSetError("a set of units has an unknown form")
    return np.unpackbits(np.frombuffer(raw, np.uint8), count=units, bitorder="little").astype(np.bool_)
