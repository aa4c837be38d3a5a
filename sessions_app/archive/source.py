"""Bytes of an archive in order, counted, and unpacked by gzip where they are packed."""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

from sessions_app.archive.refusal import ArchiveRefused, ArchiveTooLarge

PIECE_BYTES = 64 * 1024
GZIP_MEMBERS = 1000


def plain(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def unzipped(file: BinaryIO, most: int) -> Iterator[bytes]:
    """What a gzip file holds. Raises ArchiveTooLarge as soon as more than `most` bytes come out of it, whatever went in."""
    total = 0
    for piece in _inflated(file):
        total += len(piece)
        if total > most:
            raise ArchiveTooLarge(f"Unpacked, the archive has more than {most} bytes.")
        yield piece


def _inflated(file: BinaryIO) -> Iterator[bytes]:
    data, members = file.read(PIECE_BYTES), 0
    while data:
        members += 1
        if members > GZIP_MEMBERS:
            raise ArchiveRefused(f"The archive consists of more than {GZIP_MEMBERS} gzip parts.")
        unpack = zlib.decompressobj(wbits=31)  # gzip's own header and checksum
        while not unpack.eof:
            try:
                piece = unpack.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise ArchiveRefused("The archive is not gzip, or was damaged.") from error
            if piece:
                yield piece
            data = unpack.unused_data if unpack.eof else unpack.unconsumed_tail or file.read(PIECE_BYTES)
            if not data and not unpack.eof:
                raise ArchiveRefused("The archive ends in the middle of its gzip data.")
        data = data or file.read(PIECE_BYTES)


class Source:
    """Exact numbers of bytes out of pieces of any length."""

    def __init__(self, pieces: Iterator[bytes]):
        self._pieces, self._held = pieces, b""

    def take(self, count: int) -> bytes:
        """Exactly `count` bytes; prerequisite: `count` is small. Raises ArchiveRefused at an early end."""
        return b"".join(self.stream(count))

    def stream(self, count: int) -> Iterator[bytes]:
        while count:
            piece = self._held or next(self._pieces, b"")
            if not piece:
                raise ArchiveRefused("The archive ends in the middle of an entry: it was cut short.")
            yield piece[:count]
            self._held = piece[count:]
            count -= min(count, len(piece))

    def rest(self) -> Iterator[bytes]:
        if self._held:
            yield self._held
        self._held = b""
        yield from self._pieces
