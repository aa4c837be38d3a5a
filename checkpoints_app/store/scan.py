"""Reading a whole pack to learn which of its units are good: a damaged frame costs only its own units."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .backends.backend import Backend
from .bitmap import UnitSet
from .errors import IntegrityError, MissingObjectError
from .extents import Int64s
from .ids import UNIT_BYTES, unit_ids
from .keys import AccountKeys
from .names import object_key
from .packs import MAX_HEAD_BYTES, PackIndex, decode_frame, decode_listing, opener_of, pack_opener
from .seal import Kind, Opener

_READ_BYTES = 2 << 20


@dataclass(frozen=True, eq=False)
class Scan:
    """What a pack's object is worth now."""

    index: PackIndex | None  # None: nothing in it can be told apart
    readable: bool  # a reader accepts the object as far as its good units go; not so where its size is wrong
    good: UnitSet  # by unit number: content that is there and is what its id says
    bytes_read: int
    problem: str  # "" for an object of which every byte is right

    @property
    def whole(self) -> bool:
        return not self.problem


@dataclass(frozen=True, eq=False)
class _Frame:
    first: int  # position of its first unit
    plain: memoryview
    good: npt.NDArray[np.bool_]


def scan_pack(backend: Backend, keys: AccountKeys, account_id: str, pack_id: str, generation: int, unit_count: int) -> Scan:
    """Read and verify every byte of a pack that numbers `unit_count` units. Memory: 2 MiB of stored bytes and a frame.

    BackendError if the place does not answer: that says nothing about the pack. A missing object is a pack without a good unit.
    """
    good = np.zeros(unit_count, np.bool_)
    try:
        head = backend.head(object_key(account_id, Kind.PACK, pack_id, generation), MAX_HEAD_BYTES)
    except MissingObjectError as error:
        return Scan(None, False, good, 0, str(error))
    opener = pack_opener(keys, account_id, pack_id, head.data, generation)
    try:
        index = decode_listing(opener, head.data)
        if index.layout.unit_count != unit_count:
            raise opener.refusal(f"it numbers {index.layout.unit_count} units where {unit_count} were recorded")
    except IntegrityError as error:
        return Scan(None, False, good, len(head.data), str(error))
    right_size = index.stored_bytes == head.object_bytes
    problems = [] if right_size else ["its size is not the sum of its parts"]
    try:
        for frame in _frames(backend, keys, account_id, index, problems):
            good[index.layout.numbers[frame.first : frame.first + len(frame.good)]] = frame.good
    except MissingObjectError as error:
        return Scan(None, False, np.zeros(unit_count, np.bool_), len(head.data), str(error))
    return Scan(index, right_size, good, head.object_bytes, f"pack {pack_id}: {problems[0]}" if problems else "")


def read_listing(backend: Backend, keys: AccountKeys, account_id: str, pack_id: str, generation: int) -> PackIndex:
    """What the pack says that it holds, also where its object was cut. IntegrityError, MissingObjectError, BackendError."""
    head = backend.head(object_key(account_id, Kind.PACK, pack_id, generation), MAX_HEAD_BYTES)
    return decode_listing(pack_opener(keys, account_id, pack_id, head.data, generation), head.data)


def read_good_units(
    backend: Backend, keys: AccountKeys, account_id: str, index: PackIndex, wanted: Int64s
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """The wanted units of a pack, shape (n, 4096), and which of them are there and good. `wanted` are unit numbers, ascending."""
    positions = index.positions_of(wanted)
    found = np.zeros((len(wanted), UNIT_BYTES), np.uint8)
    good = np.zeros(len(wanted), np.bool_)
    for frame in _frames(backend, keys, account_id, index, [], needed=positions):
        here = np.flatnonzero((positions >= frame.first) & (positions < frame.first + len(frame.good)))
        units = np.frombuffer(frame.plain, np.uint8).reshape(-1, UNIT_BYTES)
        within = positions[here] - frame.first
        found[here] = units[within]
        good[here] = frame.good[within]
    return found, good


def _frames(
    backend: Backend, keys: AccountKeys, account_id: str, index: PackIndex, problems: list[str], needed: Int64s | None = None
) -> Iterator[_Frame]:
    """Each frame (those that hold a needed position) that opens. What is wrong with others, or with a unit, is added to `problems`."""
    opener, key = opener_of(keys, account_id, index), object_key(account_id, Kind.PACK, index.pack_id, index.generation)
    chosen = list(range(len(index.codecs)))
    if needed is not None:
        held = np.searchsorted(index.first_units, needed[needed >= 0], side="right") - 1
        chosen = np.unique(held).tolist()
    buffer, buffered = b"", 0
    for number in chosen:
        start, end = int(index.offsets[number]), int(index.offsets[number + 1])
        if not buffered <= start <= end <= buffered + len(buffer):
            buffer, buffered = backend.read(key, start, max(end - start, _READ_BYTES)), start
        frame = _open(opener, keys, index, number, buffer[start - buffered : end - buffered], problems)
        if frame is not None:
            yield frame


def _open(opener: Opener, keys: AccountKeys, index: PackIndex, number: int, sealed: bytes, problems: list[str]) -> _Frame | None:
    first, count = index.frame_span(number)
    try:
        plain = decode_frame(opener, index, number, sealed)
    except IntegrityError as error:
        problems.append(error.reason)
        return None
    ids = unit_ids(keys.id_key.reveal(), memoryview(plain), range(0, len(plain), UNIT_BYTES))
    good = (ids == index.ids[first : first + count]).all(axis=1)
    if not good.all():
        problems.append(f"a unit of frame {number} is not the one that its id says")
    return _Frame(first, plain, good)
