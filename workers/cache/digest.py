"""The digest of an assembled image file: taken when it is made from verified units, compared before each use.

Only the data of a sparse file is read. The digest covers the file's length and, for each data extent cut into pieces of at most 8 MiB,
its offset, its length and the BLAKE3 of its bytes; two threads read and hash (both release the GIL), each through one buffer of its own.
"""

import errno
import os
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

import blake3

PIECE_BYTES = 8 << 20
THREADS = 2


def image_digest(path: Path) -> str:
    """Hex. Raises OSError if the file cannot be read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        whole = blake3.blake3(struct.pack("<Q", os.fstat(fd).st_size))
        buffers = local()
        with ThreadPoolExecutor(THREADS) as pool:
            for piece, digest in zip(_pieces(fd), pool.map(lambda p: _hash(fd, p, buffers), _pieces(fd)), strict=True):
                whole.update(struct.pack("<QQ", *piece) + digest)
        return whole.hexdigest()
    finally:
        os.close(fd)


def data_extents(fd: int) -> Iterator[tuple[int, int]]:
    """(start, end) of each run of data in a sparse file, ascending; what lies between reads as zeros."""
    end, size = 0, os.fstat(fd).st_size
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data behind this
                return
            raise
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, end


def _pieces(fd: int) -> Iterator[tuple[int, int]]:
    for start, end in data_extents(fd):
        for offset in range(start, end, PIECE_BYTES):
            yield offset, min(PIECE_BYTES, end - offset)


def _hash(fd: int, piece: tuple[int, int], buffers: local) -> bytes:
    offset, length = piece
    if not hasattr(buffers, "view"):
        buffers.view = memoryview(bytearray(PIECE_BYTES))
    view = buffers.view[:length]
    done = 0
    while done < length:
        got = os.preadv(fd, [view[done:]], offset + done)
        if got == 0:
            raise OSError(errno.EIO, "the image became shorter while it was read")
        done += got
    return bytes(blake3.blake3(view).digest())
