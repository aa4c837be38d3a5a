"""Copy pages out of a stopped process into a file, through one buffer that is made before the stop."""

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from workers.machine.driver import PAGE_BYTES, MachineError
from workers.machine.memory.mapping import Segment
from workers.machine.memory.runs import page_runs

BUFFER_BYTES = 4 * 1024 * 1024


class PageCopier:
    """Holds the buffer. Made before the machine stops: its first touch is paid for outside the pause, and memory does not grow with the guest."""

    def __init__(self, buffer_bytes: int = BUFFER_BYTES):
        self._buffer = memoryview(bytearray(b"\xff" * buffer_bytes))
        self._filled = 0

    def copy(self, mem_fd: int, segments: Sequence[Segment], pages: npt.NDArray[np.int64], out_fd: int) -> None:
        """Append the bytes of `pages` (ascending) to `out_fd`, packed. Raises OSError (ENOSPC too) or `capture_failed`."""
        self._filled = 0
        for segment in segments:
            first = segment.offset // PAGE_BYTES
            low, high = np.searchsorted(pages, [first, first + segment.length // PAGE_BYTES])
            for page, count in page_runs(pages[low:high]):
                self._copy_run(mem_fd, segment.address + (page - first) * PAGE_BYTES, count * PAGE_BYTES, out_fd)
        self._flush(out_fd)

    def _copy_run(self, mem_fd: int, address: int, length: int, out_fd: int) -> None:
        while length:
            if self._filled == len(self._buffer):
                self._flush(out_fd)
            piece = self._buffer[self._filled : self._filled + length]
            got = os.preadv(mem_fd, [piece], address)
            if got <= 0:
                raise MachineError("capture_failed", "The memory of the machine could not be read (its process is ending); nothing was saved.")
            self._filled, address, length = self._filled + got, address + got, length - got

    def _flush(self, out_fd: int) -> None:
        rest = self._buffer[: self._filled]
        while rest:
            rest = rest[os.write(out_fd, rest) :]
        self._filled = 0
