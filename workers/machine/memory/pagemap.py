"""Which pages of a private mapping were written: those that the kernel no longer takes from the file.

Bit 63 of a pagemap entry: present; 62: swapped; 61: the page belongs to a file. A page of a private file mapping
that was written became an anonymous one: present or swapped, and not of a file. The kernel gives these bits (not the frame numbers) to any
process that may trace the other. Where the kernel can look for such pages itself (scan.py) it is asked to.
"""

import os
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from workers.machine.driver import PAGE_BYTES, MachineError
from workers.machine.memory import scan
from workers.machine.memory.mapping import Segment

ENTRY_BYTES = 8
CHUNK_ENTRIES = 128 * 1024  # 1 MiB of entries, 512 MiB of guest memory
PRESENT_OR_SWAPPED = np.uint64(0b11 << 62)
OF_FILE = np.uint64(1 << 61)


def written_pages(pagemap_fd: int, segments: Iterable[Segment]) -> npt.NDArray[np.int64]:
    """Page numbers within the image, ascending. Raises `capture_failed`, also for a process that is ending."""
    return _scanned(pagemap_fd, segments) if scan.offered() else _read(pagemap_fd, segments)


def _scanned(pagemap_fd: int, segments: Iterable[Segment]) -> npt.NDArray[np.int64]:
    parts: list[npt.NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for segment in segments:
        parts += [scan.pages_of_runs(runs, segment) for runs in scan.scanned_runs(pagemap_fd, segment)]
        # Of a process without its memory the plain table is empty, and a scan finds nothing: it had it to the end of the scan.
        _read_entries(pagemap_fd, np.empty(1, dtype=np.uint64), segment.address // PAGE_BYTES)
    return np.concatenate(parts)


def _read(pagemap_fd: int, segments: Iterable[Segment]) -> npt.NDArray[np.int64]:
    """Reads the table in bounded chunks; the result grows with what was written only."""
    parts: list[npt.NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    buffer = np.empty(CHUNK_ENTRIES, dtype=np.uint64)
    for segment in segments:
        pages = segment.length // PAGE_BYTES
        for first in range(0, pages, CHUNK_ENTRIES):
            entries = buffer[: min(CHUNK_ENTRIES, pages - first)]
            _read_entries(pagemap_fd, entries, segment.address // PAGE_BYTES + first)
            written = ((entries & PRESENT_OR_SWAPPED) != 0) & ((entries & OF_FILE) == 0)
            parts.append(np.flatnonzero(written) + (segment.offset // PAGE_BYTES + first))
    return np.concatenate(parts)


def _read_entries(pagemap_fd: int, entries: npt.NDArray[np.uint64], first_page: int) -> None:
    got = os.preadv(pagemap_fd, [entries.data.cast("B")], first_page * ENTRY_BYTES)
    if got != entries.nbytes:
        raise MachineError("capture_failed", "The machine's page table ended early (its process is ending); nothing was saved.")
