"""The pack: up to 4096 units (16 MiB plain) in frames of up to 32, with their ids. Byte table: docs/store-format.md.

Why 16 MiB: two packs in the making and one being filled stay under 100 MiB; one unit of the wire (an S3 single-part put, a row, an
erasure's rewrite) stays small; and the table (132 KiB at most) is one read. The table stands in front of the frames, so that one
read from the object's beginning is enough to know everything in it.

A rewritten pack (generation 1 and on, format version 2) holds some of the units under the numbers that they always had. Units that are
needed but could not be read any more are *lost*: listed with their ids and without content, so that they can be healed.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from .codec import CodecError, compress_all, decompress_all
from .extents import PACK_UNITS, Int64s
from .ids import ID_BYTES, UNIT_BYTES, Ids, ids_from_bytes, type_ids, unit_ids
from .keys import AccountKeys
from .seal import SALT_BYTES, TAG_BYTES, Kind, Opener, Rewriting, Sealer, Section

MAGIC = b"KSPACK\r\n"
VERSION = 1
REWRITTEN_VERSION = 2
FRAME_UNITS = 32
HEADER = struct.Struct("<8sHH32sI")  # magic, version, unit bytes, pack id, stored bytes of the table
REWRITTEN = struct.Struct(f"<I{SALT_BYTES}s")  # follows the header of version 2: generation, salt
RAW, ZSTD = 0, 1

_COUNTS = struct.Struct("<II")  # frames, units
_REWRITTEN_COUNTS = struct.Struct("<IIII")  # frames, units with content, lost units, unit numbers
_NUMBER = np.dtype("<u2")
_FRAME_ROW = np.dtype([("codec", "u1"), ("units", "u1"), ("stored", "<u4")])
_MAX_FRAMES = PACK_UNITS  # frames may be short
_AT_ONCE = 32  # frames decoded together while a pack is verified: 4 MiB
MAX_TABLE_BYTES = _REWRITTEN_COUNTS.size + _MAX_FRAMES * _FRAME_ROW.itemsize + PACK_UNITS * (_NUMBER.itemsize + ID_BYTES) + TAG_BYTES
MAX_HEAD_BYTES = HEADER.size + REWRITTEN.size + MAX_TABLE_BYTES


@dataclass(frozen=True, eq=False)
class Layout:
    """Which of a pack's unit numbers a rewritten pack has, ascending, and which of them without content."""

    unit_count: int  # numbers from 0 to this, as when the pack was new
    numbers: Int64s
    lost: Int64s
    lost_ids: Ids


@dataclass(frozen=True, eq=False)
class PackIndex:
    """What one pack holds. `ids` has one row per unit with content, in the order of the frames; other arrays one entry per frame."""

    pack_id: str
    ids: Ids
    codecs: npt.NDArray[np.uint8]
    first_units: npt.NDArray[np.int64]  # position of each frame's first unit, and the number of units as last entry
    offsets: npt.NDArray[np.int64]  # of each frame in the object, and the object's size as last entry
    rewriting: Rewriting | None
    layout: Layout

    @property
    def stored_bytes(self) -> int:
        return int(self.offsets[-1])

    @property
    def generation(self) -> int:
        return self.rewriting.generation if self.rewriting else 0

    @cached_property
    def ids_by_number(self) -> Ids:
        """One id per unit number; the zero id where the pack has no content for it."""
        if len(self.ids) == self.layout.unit_count:
            return self.ids
        found: Ids = np.zeros((self.layout.unit_count, 4), type_ids)
        found[self.layout.numbers] = self.ids
        return found

    def listed_ids(self, numbers: Int64s) -> Ids:
        """Ids of these unit numbers, with content or lost; the zero id for a unit that is not listed."""
        ids = self.ids_by_number.copy()
        ids[self.layout.lost] = self.layout.lost_ids
        return ids[numbers]

    def positions_of(self, numbers: Int64s) -> Int64s:
        """Where these units stand among those with content; -1 for one that is not there."""
        at = np.searchsorted(self.layout.numbers, numbers)
        at[at == len(self.ids)] = 0
        if len(self.ids) == 0:
            return np.full(len(numbers), -1, np.int64)
        return np.where(self.layout.numbers[at] == numbers, at, -1)

    def frame_span(self, frame: int) -> tuple[int, int]:
        """Position of the first unit, and number of units, of a frame."""
        return int(self.first_units[frame]), int(self.first_units[frame + 1] - self.first_units[frame])


@dataclass(frozen=True, eq=False)
class EncodedPack:
    index: PackIndex
    chunks: list[bytes]  # the whole object, in order


def encode_pack(sealer: Sealer, plain: memoryview, ids: Ids, layout: Layout | None = None) -> EncodedPack:
    """The object that holds these units (`plain` is their bytes, flat). The sealer is new: it gives the pack its id.

    `layout` is for a sealer of a later generation, and only for one.
    """
    if (layout is None) != (sealer.rewriting is None):
        raise ValueError("a rewritten pack has a layout, and only a rewritten one")
    layout = layout or _first_layout(len(ids))
    frames: list[bytes] = []
    rows = np.zeros(-(-len(ids) // FRAME_UNITS), _FRAME_ROW)
    pieces = [plain[start : start + FRAME_UNITS * UNIT_BYTES] for start in range(0, len(plain), FRAME_UNITS * UNIT_BYTES)]
    for number, (piece, packed) in enumerate(zip(pieces, compress_all(pieces), strict=True)):
        smaller = len(packed) < len(piece)
        frames.append(sealer.seal(Section.FRAME, packed if smaller else piece))
        rows[number] = (ZSTD if smaller else RAW, len(piece) // UNIT_BYTES, len(frames[-1]))
    sealed = sealer.seal(Section.TABLE, _encode_table(sealer.rewriting, rows, ids, layout))
    header = _header(sealer, len(sealed))
    index = _index(sealer.object_id, rows, ids, len(header) + len(sealed), sealer.rewriting, layout)
    return EncodedPack(index, [header, sealed, *frames])


def _header(sealer: Sealer, table_bytes: int) -> bytes:
    version = REWRITTEN_VERSION if sealer.rewriting else VERSION
    header = HEADER.pack(MAGIC, version, UNIT_BYTES, bytes.fromhex(sealer.object_id), table_bytes)
    return header + REWRITTEN.pack(sealer.rewriting.generation, sealer.rewriting.salt) if sealer.rewriting else header


def _encode_table(rewriting: Rewriting | None, rows: npt.NDArray[np.void], ids: Ids, layout: Layout) -> bytes:
    if rewriting is None:
        return _COUNTS.pack(len(rows), len(ids)) + rows.tobytes() + np.ascontiguousarray(ids).tobytes()
    counts = _REWRITTEN_COUNTS.pack(len(rows), len(ids), len(layout.lost), layout.unit_count)
    numbers = np.concatenate((layout.numbers, layout.lost)).astype(_NUMBER)
    return counts + rows.tobytes() + numbers.tobytes() + np.concatenate((ids, layout.lost_ids)).astype(type_ids).tobytes()


def pack_opener(keys: AccountKeys, account_id: str, pack_id: str, head: bytes = b"", generation: int = 0) -> Opener:
    """Opens the parts of that generation. A later one than the first needs the object's first bytes, for its salt."""
    if generation == 0:
        return Opener(keys, Kind.PACK, account_id, pack_id)
    salt = b""
    if len(head) >= HEADER.size + REWRITTEN.size:
        salt = REWRITTEN.unpack_from(head, HEADER.size)[1]
    return Opener(keys, Kind.PACK, account_id, pack_id, Rewriting(generation, salt))


def opener_of(keys: AccountKeys, account_id: str, index: PackIndex) -> Opener:
    return Opener(keys, Kind.PACK, account_id, index.pack_id, index.rewriting)


def decode_head(opener: Opener, head: bytes, object_bytes: int) -> PackIndex:
    """The index out of the object's first bytes (`MAX_HEAD_BYTES` of them, or all) and its size.

    Raises IntegrityError if anything differs from what `encode_pack` writes: every byte of the object is either checked here or lies
    in exactly one frame, and the size is exactly the sum.
    """
    index = decode_listing(opener, head)
    if index.stored_bytes != object_bytes:
        raise opener.refusal("its size is not the sum of its parts")
    return index


def decode_listing(opener: Opener, head: bytes) -> PackIndex:
    """As `decode_head`, without a word about the object's size: what a scan needs of an object that was cut."""
    start = HEADER.size + (REWRITTEN.size if opener.rewriting else 0)
    if len(head) < start:
        raise opener.refusal("it is shorter than its header")
    magic, version, unit_bytes, raw_id, table_bytes = HEADER.unpack_from(head)
    expected_version = REWRITTEN_VERSION if opener.rewriting else VERSION
    if (magic, version, unit_bytes, raw_id) != (MAGIC, expected_version, UNIT_BYTES, bytes.fromhex(opener.object_id)):
        raise opener.refusal("its header is not that of this pack in a format known here")
    if opener.rewriting and REWRITTEN.unpack_from(head, HEADER.size) != (opener.rewriting.generation, opener.rewriting.salt):
        raise opener.refusal("its header is not that of this generation")
    end = start + table_bytes
    if table_bytes > MAX_TABLE_BYTES or len(head) < end:
        raise opener.refusal("its table does not fit")
    return _decode_table(opener, opener.open(Section.TABLE, 0, head[start:end]), end)


def decode_frame(opener: Opener, index: PackIndex, frame: int, sealed: bytes | memoryview) -> memoryview:
    """The plain units of one frame, authentic but not yet compared with their ids."""
    return decode_frames(opener, index, [frame], [sealed])[0]


def decode_frames(opener: Opener, index: PackIndex, frames: Sequence[int], sealed: Sequence[bytes | memoryview]) -> list[memoryview]:
    """As `decode_frame`, of several at once: 128 KiB of memory each."""
    opened = [opener.open(Section.FRAME, frame, one) for frame, one in zip(frames, sealed, strict=True)]
    sizes = [index.frame_span(frame)[1] * UNIT_BYTES for frame in frames]
    packed = [at for at, frame in enumerate(frames) if index.codecs[frame] != RAW]
    for at in set(range(len(frames))).difference(packed):
        if len(opened[at]) != sizes[at]:
            raise opener.refusal(f"frame {frames[at]} has another size than its table says")
    plain = [memoryview(one) for one in opened]
    try:
        for at, one in zip(packed, decompress_all([opened[at] for at in packed], [sizes[at] for at in packed]), strict=True):
            plain[at] = one
    except CodecError:
        raise opener.refusal(f"one of the frames {frames} does not decompress to the size its table says") from None
    return plain


def verify_encoded(opener: Opener, id_key: bytes, encoded: EncodedPack) -> None:
    """Decode and re-hash what was encoded, as a reader would; IntegrityError means that this machine made an error while saving."""
    header, table, *frames = encoded.chunks
    index = decode_head(opener, header + table, sum(map(len, encoded.chunks)))
    meant, found = encoded.index.layout, index.layout
    same = np.array_equal(found.numbers, meant.numbers) and np.array_equal(found.lost, meant.lost)
    if not (same and np.array_equal(index.ids, encoded.index.ids) and np.array_equal(found.lost_ids, meant.lost_ids)):
        raise opener.refusal("its table lists other units than were given")
    for start in range(0, len(frames), _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, len(frames)))
        for number, plain in zip(numbers, decode_frames(opener, index, numbers, frames[start : start + _AT_ONCE]), strict=True):
            first, count = index.frame_span(number)
            ids = unit_ids(id_key, plain, range(0, len(plain), UNIT_BYTES))
            if not np.array_equal(ids, index.ids[first : first + count]):
                raise opener.refusal(f"frame {number} decodes to other content than was hashed")


def _decode_table(opener: Opener, table: bytes, start: int) -> PackIndex:
    form = _REWRITTEN_COUNTS if opener.rewriting else _COUNTS
    if len(table) < form.size:
        raise opener.refusal("its table is cut")
    frames, units, *more = form.unpack_from(table)
    lost, unit_count = more or (0, units)
    listed = units + lost
    rows_end = form.size + frames * _FRAME_ROW.itemsize
    ids_start = rows_end + (listed * _NUMBER.itemsize if opener.rewriting else 0)
    if not 0 < listed <= unit_count <= PACK_UNITS or not frames <= units or len(table) != ids_start + listed * ID_BYTES:
        raise opener.refusal("its table's counts do not fit")
    rows = np.frombuffer(table, _FRAME_ROW, frames, form.size)
    if not _frames_fit(rows, units):
        raise opener.refusal("a frame in its table does not fit")
    ids = ids_from_bytes(table[ids_start:])
    layout = _first_layout(units)
    if opener.rewriting:
        numbers = np.frombuffer(table, _NUMBER, listed, rows_end).astype(np.int64)
        layout = Layout(unit_count, numbers[:units], numbers[units:], ids[units:])
        if not _numbers_fit(layout):
            raise opener.refusal("the unit numbers in its table do not fit")
    return _index(opener.object_id, rows, ids[:units], start, opener.rewriting, layout)


def _frames_fit(rows: npt.NDArray[np.void], units: int) -> bool:
    counts = rows["units"].astype(np.int64)
    limit = counts * UNIT_BYTES + TAG_BYTES
    stored = rows["stored"].astype(np.int64)
    sizes_fit = np.where(rows["codec"] == RAW, stored == limit, (stored > TAG_BYTES) & (stored < limit))
    counts_fit = (counts >= 1) & (counts <= FRAME_UNITS)
    return bool(counts.sum() == units and (counts_fit & sizes_fit & (rows["codec"] <= ZSTD)).all())


def _numbers_fit(layout: Layout) -> bool:
    """Each unit is listed once: with content, or as lost."""
    both = np.concatenate((layout.numbers, layout.lost))
    ascending = all((np.diff(part) > 0).all() for part in (layout.numbers, layout.lost))
    return bool(ascending and len(np.unique(both)) == len(both) and both.max() < layout.unit_count)


@lru_cache(maxsize=8)  # all packs but the last of a save have the same
def _first_layout(units: int) -> Layout:
    numbers = np.arange(units)
    numbers.flags.writeable = False
    return Layout(units, numbers, np.empty(0, np.int64), ids_from_bytes(b""))


def _index(pack_id: str, rows: npt.NDArray[np.void], ids: Ids, start: int, rewriting: Rewriting | None, layout: Layout) -> PackIndex:
    first_units = np.concatenate(([0], np.cumsum(rows["units"], dtype=np.int64)))
    offsets = start + np.concatenate(([0], np.cumsum(rows["stored"], dtype=np.int64)))
    return PackIndex(pack_id, ids, rows["codec"].copy(), first_units, offsets, rewriting, layout)
