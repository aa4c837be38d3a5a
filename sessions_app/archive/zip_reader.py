"""Entries of a zip, as its central directory names them: stored or deflated plain files and directories."""

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from sessions_app.archive.member import Member
from sessions_app.archive.refusal import ArchiveRefused
from sessions_app.archive.source import PIECE_BYTES

#: Bytes of the central directory: several times what so many names take.
DIRECTORY_BYTES = 8 * 1024 * 1024
_END = struct.Struct("<4s4H2LH")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_COMMENT_BYTES = 0xFFFF
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_DOS_DIRECTORY = 0x10
_TOO_MANY = 0xFFFF, 0xFFFFFFFF  # stands where only zip64 has the number


@dataclass(frozen=True)
class _Listed:
    name: bytes
    mode: int  # 0 where the writer knew none
    is_dir: bool
    method: int
    crc: int
    packed: int
    size: int
    offset: int


def members(file: BinaryIO) -> Iterator[Member]:
    """Prerequisite: the file can be sought in. Raises ArchiveRefused."""
    for entry in _directory(file):
        kind = stat.S_IFMT(entry.mode)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ArchiveRefused("The archive holds a link, a device or a FIFO.", name=entry.name)
        is_dir = entry.is_dir or kind == stat.S_IFDIR
        if is_dir and entry.size:
            raise ArchiveRefused("A directory of the archive has content.", name=entry.name)
        yield Member(entry.name, is_dir, bool(entry.mode & 0o100), entry.size, _content(file, entry))


def _directory(file: BinaryIO) -> Iterator[_Listed]:
    _, disk, first_disk, here, count, length, offset, _ = _END.unpack(_end(file))
    if _TOO_MANY[0] in (here, count) or _TOO_MANY[1] in (length, offset):
        raise ArchiveRefused("The archive is a zip64 of more entries or bytes than are taken.")
    if disk or first_disk or here != count or length > DIRECTORY_BYTES:
        raise ArchiveRefused("The archive is a part of a zip of several files, or its directory is too long.")
    file.seek(offset)
    directory, at = file.read(length), 0
    for _ in range(count):
        entry, taken = _entry(directory, at)
        at += taken
        yield entry
    if at != len(directory) or len(directory) != length:
        raise ArchiveRefused("The archive's directory is not what its end says.")


def _end(file: BinaryIO) -> bytes:
    """The record that ends a zip, whose comment reaches exactly to the end of the file: no other is taken for it."""
    size = file.seek(0, 2)
    start = max(0, size - _COMMENT_BYTES - _END.size)
    file.seek(start)
    tail = file.read(size - start)
    at = tail.rfind(b"PK\x05\x06")
    while at >= 0:
        record = tail[at : at + _END.size]
        if len(record) == _END.size and _END.unpack(record)[-1] == len(tail) - at - _END.size:
            return record
        at = tail.rfind(b"PK\x05\x06", 0, at)
    raise ArchiveRefused("The archive is not a zip, or was cut short.")


def _entry(directory: bytes, at: int) -> tuple[_Listed, int]:
    """The entry there, and how many bytes it takes."""
    head = directory[at : at + _ENTRY.size]
    if len(head) < _ENTRY.size or not head.startswith(b"PK\x01\x02"):
        raise ArchiveRefused("The archive's directory makes no sense.")
    _, by, _, flags, method, _, _, crc, packed, size, names, extras, comments, _, _, attributes, offset = _ENTRY.unpack(head)
    name = directory[at + _ENTRY.size : at + _ENTRY.size + names]
    if len(name) != names:
        raise ArchiveRefused("The archive's directory makes no sense.")
    if flags & _ENCRYPTED or method not in (_STORED, _DEFLATED):
        raise ArchiveRefused("An entry of the archive is encrypted, or packed by another method than deflate.", name=name)
    if _TOO_MANY[1] in (packed, size, offset):
        raise ArchiveRefused("An entry of the archive is larger than is taken.", name=name)
    is_dir = name.endswith(b"/") or (by >> 8 == 0 and bool(attributes & _DOS_DIRECTORY))
    return _Listed(name, attributes >> 16, is_dir, method, crc, packed, size, offset), _ENTRY.size + names + extras + comments


def _content(file: BinaryIO, entry: _Listed) -> Iterator[bytes]:
    """Exactly the bytes that the directory promises, or ArchiveRefused."""
    file.seek(entry.offset)
    head = file.read(_LOCAL.size)
    if len(head) < _LOCAL.size or not head.startswith(b"PK\x03\x04"):
        raise ArchiveRefused("The archive's directory points to no entry.", name=entry.name)
    *_, names, extras = _LOCAL.unpack(head)
    file.seek(names + extras, 1)
    found, crc = 0, 0
    for piece in _packed(file, entry.packed) if entry.method == _STORED else _inflated(_packed(file, entry.packed), entry):
        found, crc = found + len(piece), zlib.crc32(piece, crc)
        if found > entry.size:
            break
        yield piece
    if (found, crc) != (entry.size, entry.crc):
        raise ArchiveRefused("An entry of the archive is not what its directory says, or was damaged.", name=entry.name)


def _packed(file: BinaryIO, left: int) -> Iterator[bytes]:
    while left:
        piece = file.read(min(left, PIECE_BYTES))
        if not piece:
            return  # told by the size or checksum that is missing
        left -= len(piece)
        yield piece


def _inflated(pieces: Iterator[bytes], entry: _Listed) -> Iterator[bytes]:
    unpack = zlib.decompressobj(wbits=-15)
    try:
        for piece in pieces:
            data = piece
            while data and not unpack.eof:
                yield unpack.decompress(data, PIECE_BYTES)
                data = unpack.unconsumed_tail
        while not unpack.eof and (piece := unpack.decompress(b"", PIECE_BYTES)):
            yield piece
    except zlib.error as error:
        raise ArchiveRefused("An entry of the archive was damaged.", name=entry.name) from error
