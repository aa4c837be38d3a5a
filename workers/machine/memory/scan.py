"""PAGEMAP_SCAN (Linux 6.7 and later): the kernel walks the page tables itself and answers with runs of the pages that are asked for.

The plain table (pagemap.py) has eight bytes for every page of the machine; this answer has 24 for every run of written ones.
"""

import ctypes
import fcntl
import os
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from workers.machine.driver import PAGE_BYTES, MachineError
from workers.machine.memory.mapping import Segment

PAGEMAP_SCAN = 0xC0606610  # _IOWR('f', 16, 96 bytes)
PAGE_IS_FILE, PAGE_IS_PRESENT, PAGE_IS_SWAPPED = 1 << 2, 1 << 3, 1 << 4
REGIONS = 16 * 1024  # 384 KiB; a longer answer comes in parts
REGION_WORDS = 3  # start, end, categories


class _Request(ctypes.Structure):
    """`struct pm_scan_arg`."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            *("size", "flags", "start", "end", "walk_end", "vec", "vec_len", "max_pages"),
            *("category_inverted", "category_mask", "category_anyof_mask", "return_mask"),
        )
    ]


@cache
def offered() -> bool:
    """Whether this kernel has the call: asked once, of this process and for no page."""
    try:
        fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.ioctl(fd, PAGEMAP_SCAN, _request(0, 0, None))
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def scanned_runs(pagemap_fd: int, segment: Segment) -> Iterator[npt.NDArray[np.int64]]:
    """Addresses (first, behind the last) of runs of written pages of the segment, ascending, in arrays of shape (n, 2).

    The kernel walks a process that is ending without a complaint, and finds nothing: the caller makes sure that it had its memory to
    the end. Raises `capture_failed`.
    """
    answer = np.empty((REGIONS, REGION_WORDS), np.uint64)
    start, end = segment.address, segment.address + segment.length
    while start < end:
        request = _request(start, end, answer)
        try:
            count = fcntl.ioctl(pagemap_fd, PAGEMAP_SCAN, request)
        except OSError as error:
            told = f"The machine's page table could not be scanned ({error.strerror}); nothing was saved."
            raise MachineError("capture_failed", told) from error
        runs = answer[:count, :2].astype(np.int64)
        # walk_end alone will not do: a walk that went through the kernel's inner buffer more than once leaves it behind what was answered.
        done = max(request.walk_end, int(runs[-1, 1]) if count else 0)
        if not start < done <= end:
            raise MachineError("capture_failed", "The scan of the machine's page table makes no progress; nothing was saved.")
        yield runs
        start = done


def pages_of_runs(runs: npt.NDArray[np.int64], segment: Segment) -> npt.NDArray[np.int64]:
    """Numbers within the image of the pages of these runs."""
    firsts = (runs[:, 0] - segment.address + segment.offset) // PAGE_BYTES
    lengths = (runs[:, 1] - runs[:, 0]) // PAGE_BYTES
    before = np.cumsum(lengths) - lengths
    return np.repeat(firsts - before, lengths) + np.arange(lengths.sum(), dtype=np.int64)


def _request(start: int, end: int, answer: npt.NDArray[np.uint64] | None) -> _Request:
    """Pages that are present or swapped, and not of a file. All that match have the same returned category (none), so neighbours are one
    run.
    """
    return _Request(
        size=ctypes.sizeof(_Request),
        start=start,
        end=end,
        vec=0 if answer is None else answer.ctypes.data,
        vec_len=0 if answer is None else len(answer),
        category_inverted=PAGE_IS_FILE,
        category_mask=PAGE_IS_FILE,
        category_anyof_mask=PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        return_mask=PAGE_IS_FILE,
    )
