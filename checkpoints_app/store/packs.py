"""The pack: up to 4096 units (16 MiB plain) in frames of up to 32, with their ids. Byte table: docs/store-format.md.

Why 16 MiB: two packs in the making and one being filled stay under 100 MiB; one unit of the wire (an S3 single-part put, a row, an
erasure's rewrite) stays small; and the table (132 KiB at most) is one read. The table stands in front of the frames, so that one
read from the object's beginning is enough to know everything in it.
"""

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .codec import CodecError, compress, decompress
from .ids import ID_BYTES, UNIT_BYTES, Ids, ids_from_bytes, unit_ids
from .keys import AccountKeys
from .seal import TAG_BYTES, Kind, Opener, Sealer, Section

MAGIC = b"KSPACK\r\n"
VERSION = 1
FRAME_UNITS = 32
PACK_UNITS = 4096
HEADER = struct.Struct("<8sHH32sI")  # magic, version, unit bytes, pack id, stored bytes of the table
RAW, ZSTD = 0, 1

_COUNTS = struct.Struct("<II")  # frames, units
_FRAME_ROW = np.dtype([("codec", "u1"), ("units", "u1"), ("stored", "<u4")])
_MAX_FRAMES = PACK_UNITS  # frames may be short
MAX_TABLE_BYTES = _COUNTS.size + _MAX_FRAMES * _FRAME_ROW.itemsize + PACK_UNITS * ID_BYTES + TAG_BYTES
MAX_HEAD_BYTES = HEADER.size + MAX_TABLE_BYTES


@dataclass(frozen=True, eq=False)
class PackIndex:
    """What one pack holds. Arrays of length frames, except `ids` (units, 4)."""

    pack_id: str
    ids: Ids
    codecs: npt.NDArray[np.uint8]
    first_units: npt.NDArray[np.int64]  # of each frame, and the number of units as last entry
    offsets: npt.NDArray[np.int64]  # of each frame in the object, and the object's size as last entry

    @property
    def stored_bytes(self) -> int:
        return int(self.offsets[-1])

    def frame_span(self, frame: int) -> tuple[int, int]:
        """First unit and number of units of a frame."""
        return int(self.first_units[frame]), int(self.first_units[frame + 1] - self.first_units[frame])


@dataclass(frozen=True, eq=False)
class EncodedPack:
    index: PackIndex
    chunks: list[bytes]  # the whole object, in order


def encode_pack(sealer: Sealer, plain: memoryview, ids: Ids) -> EncodedPack:
    """The object that holds these units (`plain` is their bytes, flat). The sealer is new: it gives the pack its id."""
    frames: list[bytes] = []
    rows = np.zeros(-(-len(ids) // FRAME_UNITS), _FRAME_ROW)
    for number, first in enumerate(range(0, len(ids), FRAME_UNITS)):
        piece = plain[first * UNIT_BYTES : (first + FRAME_UNITS) * UNIT_BYTES]
        packed = compress(piece)
        smaller = len(packed) < len(piece)
        frames.append(sealer.seal(Section.FRAME, packed if smaller else piece))
        rows[number] = (ZSTD if smaller else RAW, len(piece) // UNIT_BYTES, len(frames[-1]))
    table = _COUNTS.pack(len(rows), len(ids)) + rows.tobytes() + np.ascontiguousarray(ids).tobytes()
    sealed = sealer.seal(Section.TABLE, table)
    header = HEADER.pack(MAGIC, VERSION, UNIT_BYTES, bytes.fromhex(sealer.object_id), len(sealed))
    return EncodedPack(_index(sealer.object_id, rows, ids, HEADER.size + len(sealed)), [header, sealed, *frames])


def pack_opener(keys: AccountKeys, account_id: str, pack_id: str) -> Opener:
    return Opener(keys, Kind.PACK, account_id, pack_id)


def decode_head(opener: Opener, head: bytes, object_bytes: int) -> PackIndex:
    """The index out of the object's first bytes (`MAX_HEAD_BYTES` of them, or all) and its size.

    Raises IntegrityError if anything differs from what `encode_pack` writes: every byte of the object is either checked here or lies
    in exactly one frame, and the size is exactly the sum.
    """
    if len(head) < HEADER.size:
        raise opener.refusal("it is shorter than its header")
    magic, version, unit_bytes, raw_id, table_bytes = HEADER.unpack_from(head)
    expected = (MAGIC, VERSION, UNIT_BYTES, bytes.fromhex(opener.object_id))
    if (magic, version, unit_bytes, raw_id) != expected:
        raise opener.refusal("its header is not that of this pack in a format known here")
    start = HEADER.size + table_bytes
    if table_bytes > MAX_TABLE_BYTES or len(head) < start:
        raise opener.refusal("its table does not fit")
    table = opener.open(Section.TABLE, 0, head[HEADER.size : start])
    index = _decode_table(opener, table, start)
    if index.stored_bytes != object_bytes:
        raise opener.refusal("its size is not the sum of its parts")
    return index


def decode_frame(opener: Opener, index: PackIndex, frame: int, sealed: bytes | memoryview) -> bytes:
    """The plain units of one frame, authentic but not yet compared with their ids."""
    plain_bytes = index.frame_span(frame)[1] * UNIT_BYTES
    plain = opener.open(Section.FRAME, frame, sealed)
    if index.codecs[frame] == RAW:
        if len(plain) != plain_bytes:
            raise opener.refusal(f"frame {frame} has another size than its table says")
        return plain
    try:
        return decompress(plain, plain_bytes)
    except CodecError:
        raise opener.refusal(f"frame {frame} does not decompress to the size its table says") from None


def verify_encoded(opener: Opener, id_key: bytes, encoded: EncodedPack) -> None:
    """Decode and re-hash what was encoded, as a reader would; IntegrityError means that this machine made an error while saving."""
    header, table, *frames = encoded.chunks
    index = decode_head(opener, header + table, sum(map(len, encoded.chunks)))
    if not np.array_equal(index.ids, encoded.index.ids):
        raise opener.refusal("its table lists other units than were given")
    for number, sealed in enumerate(frames):
        plain = decode_frame(opener, index, number, sealed)
        first, count = index.frame_span(number)
        ids = unit_ids(id_key, memoryview(plain), range(0, len(plain), UNIT_BYTES))
        if not np.array_equal(ids, index.ids[first : first + count]):
            raise opener.refusal(f"frame {number} decodes to other content than was hashed")


def _decode_table(opener: Opener, table: bytes, start: int) -> PackIndex:
    if len(table) < _COUNTS.size:
        raise opener.refusal("its table is cut")
    frames, units = _COUNTS.unpack_from(table)
    rows_end = _COUNTS.size + frames * _FRAME_ROW.itemsize
    if not 0 < frames <= units <= PACK_UNITS or len(table) != rows_end + units * ID_BYTES:
        raise opener.refusal("its table's counts do not fit")
    rows = np.frombuffer(table, _FRAME_ROW, frames, _COUNTS.size)
    counts = rows["units"].astype(np.int64)
    limit = counts * UNIT_BYTES + TAG_BYTES
    stored = rows["stored"].astype(np.int64)
    sizes_fit = np.where(rows["codec"] == RAW, stored == limit, (stored > TAG_BYTES) & (stored < limit))
    counts_fit = (counts >= 1) & (counts <= FRAME_UNITS)
    if counts.sum() != units or not (counts_fit & sizes_fit & (rows["codec"] <= ZSTD)).all():
        raise opener.refusal("a frame in its table does not fit")
    return _index(opener.object_id, rows, ids_from_bytes(table[rows_end:]), start)


def _index(pack_id: str, rows: npt.NDArray[np.void], ids: Ids, start: int) -> PackIndex:
    first_units = np.concatenate(([0], np.cumsum(rows["units"], dtype=np.int64)))
    offsets = start + np.concatenate(([0], np.cumsum(rows["stored"], dtype=np.int64)))
    return PackIndex(pack_id, ids, rows["codec"].copy(), first_units, offsets)
