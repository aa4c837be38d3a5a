"""Which pages of its image a process has in its page table: those that it touched, and what the kernel mapped around them.

The kernel maps up to sixteen neighbours that are in memory anyway with each page that is asked for, so this says more than what was
touched, and never less.
"""

import os
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from workers.machine.driver import PAGE_BYTES, MachineError
from workers.machine.memory.mapping import Segment
from workers.machine.memory.pagemap import CHUNK_ENTRIES, ENTRY_BYTES, PRESENT_OR_SWAPPED


def touched_pages(pagemap_fd: int, segments: Iterable[Segment]) -> npt.NDArray[np.int64]:
    """Page numbers within the image, ascending. Raises `machine_dead` if the process ends meanwhile."""
    parts: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
    for segment in segments:
        pages = segment.length // PAGE_BYTES
        for first in range(0, pages, CHUNK_ENTRIES):
            count = min(CHUNK_ENTRIES, pages - first)
            data = os.pread(pagemap_fd, count * ENTRY_BYTES, (segment.address // PAGE_BYTES + first) * ENTRY_BYTES)
            if len(data) != count * ENTRY_BYTES:
                raise MachineError("machine_dead", "The machine's page table ended early: its process is ending.")
            entries = np.frombuffer(data, np.uint64)
            parts.append(np.flatnonzero(entries & PRESENT_OR_SWAPPED) + (segment.offset // PAGE_BYTES + first))
    return np.concatenate(parts)
