"""A capture's memory as the store wants it: ascending page numbers with their bytes, in bounded batches."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workers.cache.image_sum import data_extents
from workers.machine.driver import PAGE_BYTES

BATCH_PAGES = 2048  # 8 MiB

Batch = tuple[npt.NDArray[np.int64], memoryview]


def written_pages(numbers: npt.NDArray[np.int64], pages: Path) -> Iterator[Batch]:
    """The packed pages of a capture, by number. The bytes are valid until the next batch is asked for."""
    with open(pages, "rb", buffering=0) as file:
        buffer = memoryview(bytearray(BATCH_PAGES * PAGE_BYTES))
        for start in range(0, len(numbers), BATCH_PAGES):
            part = numbers[start : start + BATCH_PAGES]
            yield part, read_whole(file.fileno(), buffer[: len(part) * PAGE_BYTES], start * PAGE_BYTES)


def image_pages(image: Path) -> Iterator[Batch]:
    """Every page of a sparse image that holds data."""
    fd = os.open(image, os.O_RDONLY)
    try:
        buffer = memoryview(bytearray(BATCH_PAGES * PAGE_BYTES))
        done = 0
        for begin, end in data_extents(fd):
            first, done = max(done, begin // PAGE_BYTES), -(-end // PAGE_BYTES)  # a file system of smaller blocks may cut a page in two
            for start in range(first, done, BATCH_PAGES):
                count = min(BATCH_PAGES, done - start)
                yield np.arange(start, start + count), read_whole(fd, buffer[: count * PAGE_BYTES], start * PAGE_BYTES)
    finally:
        os.close(fd)


def read_whole(fd: int, view: memoryview, offset: int) -> memoryview:
    """Fill the view from that offset. Raises OSError if the file ends before."""
    done = 0
    while done < len(view):
        got = os.preadv(fd, [view[done:]], offset + done)
        if got == 0:
            raise OSError(f"a file of the capture ends at {offset + done}, {len(view) - done} bytes early")
        done += got
    return view
