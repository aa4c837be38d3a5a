"""Identity of content: unit ids, image roots, checkpoint digests. None of them depends on where bytes lie.

- unit: 4096 bytes, the guest's page. The last unit of an image is padded with zeros.
- unit id: BLAKE3 keyed with the account's id key over the plain 4096 bytes; 32 bytes. Without the key nobody can test whether
  an account holds a given page, and two accounts never share an id.
- zero unit: never stored, in no pack; its id is 32 zero bytes in every account.
- base unit: a unit of a disk that equals the same unit of the image under it. It has no content id (its bytes belong to
  the image); in a root its place holds BLAKE3("KeepState base unit v1\\0" || the text "image <digest>").
- image root: BLAKE3("KeepState image root v1\\0" || length in bytes as u64 little-endian || one 32-byte id per unit, in order).
  Whether a unit counts as the base's is the capture's statement and part of the root: a writer that once compares with the base and
  once does not gives one content two roots. The store keeps what it is told.
- checkpoint digest: BLAKE3 over `canonical_json` of pin, roots and watermarks, behind its own prefix.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

UNIT_BYTES = 4096
ID_BYTES = 32
ZERO_ID = bytes(ID_BYTES)

type_ids = np.dtype("<u8")
Ids = npt.NDArray[np.uint64]  # shape (n, 4): 32 bytes as four little-endian words; the first is the prefix that indexes sort by

_ROOT_PREFIX = b"KeepState image root v1\0"
_BASE_PREFIX = b"KeepState base unit v1\0"
_CHECKPOINT_PREFIX = b"KeepState checkpoint v1\0"
_BASE = re.compile(r"image [A-Za-z0-9][A-Za-z0-9:._-]{0,127}")


def units_of(length_bytes: int) -> int:
    return -(-length_bytes // UNIT_BYTES)


def ids_from_bytes(raw: bytes) -> Ids:
    return np.frombuffer(raw, type_ids).reshape(-1, 4)


def unit_ids(id_key: bytes, units: memoryview, offsets: Iterable[int]) -> Ids:
    """Ids of the 4096-byte units that start at `offsets` in a flat buffer that nobody changes meanwhile; shape (n, 4).

    One thread, one call per unit: two threads gain little, because each call hands the interpreter lock over.
    """
    end = UNIT_BYTES
    return ids_from_bytes(b"".join([blake3(units[at : at + end], key=id_key).digest() for at in offsets]))


def base_unit_id(base: str) -> bytes:
    return blake3(_BASE_PREFIX + base.encode("ascii")).digest()


def check_base(base: str) -> str:
    """`base` as it is, or ValueError: the only kind of base is "image <digest>"."""
    if not _BASE.fullmatch(base):
        raise ValueError('a base is written "image <digest>"')
    return base


def image_root(length_bytes: int, ids: Iterable[Ids]) -> str:
    """Root of an image of `length_bytes` whose unit ids come in order, in pieces of any size; 64 hex digits."""
    hasher = blake3(_ROOT_PREFIX + length_bytes.to_bytes(8, "little"))
    count = 0
    for piece in ids:
        hasher.update(np.ascontiguousarray(piece, type_ids).tobytes())
        count += len(piece)
    if count != units_of(length_bytes):
        raise ValueError(f"{count} unit ids for an image of {units_of(length_bytes)} units")
    return hasher.hexdigest()


def canonical_json(value: Any) -> bytes:
    """One spelling per value: sorted keys, no spaces, ASCII, no NaN. ValueError or TypeError for what JSON cannot say."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def checkpoint_digest(pin: str, roots: Mapping[str, str], watermarks: Mapping[str, int]) -> str:
    """Digest of a whole checkpoint: machine pin, root of every image (memory, disk, devices) and the history's watermarks."""
    facts = {"pin": pin, "roots": dict(roots), "watermarks": dict(watermarks)}
    return blake3(_CHECKPOINT_PREFIX + canonical_json(facts)).hexdigest()
