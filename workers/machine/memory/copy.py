"""Copy pages out of a stopped process into a file, through one buffer that is made before the stop.

process_vm_readv takes 1024 separate pages in one call; reading /proc/PID/mem copies each page twice and took several times as long.
"""

import ctypes
import os
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from workers.machine.driver import PAGE_BYTES, MachineError
from workers.machine.memory.mapping import Segment

WINDOW_PAGES = 1024  # the kernel's limit of pieces in one call, and 4 MiB

_libc = ctypes.CDLL(None, use_errno=True)
_process_vm_readv = _libc.process_vm_readv
_process_vm_readv.restype = ctypes.c_ssize_t
_process_vm_readv.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]


class PageCopier:
    """Holds the buffer. Made before the machine stops: its first touch is paid for outside the pause, and memory does not grow with the
    guest.
    """

    def __init__(self) -> None:
        self._buffer = np.full(WINDOW_PAGES * PAGE_BYTES, 0xFF, dtype=np.uint8)

    def reserve(self, out_fd: int, pages: int) -> None:
        """Give the file its blocks and its place in the page cache now, so that the pause pays for neither. Raises OSError (ENOSPC)."""
        if pages:
            os.posix_fallocate(out_fd, 0, pages * PAGE_BYTES)
        for first in range(0, pages, WINDOW_PAGES):
            _write(out_fd, self._buffer[: min(WINDOW_PAGES, pages - first) * PAGE_BYTES], first * PAGE_BYTES)

    def copy(self, pid: int, segments: Iterable[Segment], pages: npt.NDArray[np.int64], out_fd: int) -> None:
        """Make the file the bytes of `pages` (ascending), packed, and nothing else. Raises OSError (ENOSPC too) or `capture_failed`.

        A process id can be reused: the caller makes sure afterwards that the process has lived all the time.
        """
        addresses = page_addresses(segments, pages)
        for first in range(0, len(addresses), WINDOW_PAGES):
            window = addresses[first : first + WINDOW_PAGES]
            filled = self._buffer[: len(window) * PAGE_BYTES]
            _read(pid, window, filled)
            _write(out_fd, filled, first * PAGE_BYTES)
        os.ftruncate(out_fd, len(addresses) * PAGE_BYTES)


def page_addresses(segments: Iterable[Segment], pages: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each page of the image lies in the process. The segments cover the image, in order."""
    parts = [np.empty(0, dtype=np.int64)]
    for segment in segments:
        first = segment.offset // PAGE_BYTES
        low, high = np.searchsorted(pages, [first, first + segment.length // PAGE_BYTES])
        parts.append((pages[low:high] - first) * PAGE_BYTES + segment.address)
    return np.concatenate(parts)


def _read(pid: int, addresses: npt.NDArray[np.int64], into: npt.NDArray[np.uint8]) -> None:
    """Consecutive pages are one piece. `struct iovec` is two machine words: address, length."""
    starts = np.concatenate(([0], np.flatnonzero(np.diff(addresses) != PAGE_BYTES) + 1))
    lengths = np.diff(np.concatenate((starts, [len(addresses)]))) * PAGE_BYTES
    remote = np.ascontiguousarray(np.stack((addresses[starts], lengths), axis=1).astype(np.uint64))
    local = np.array([into.ctypes.data, into.nbytes], dtype=np.uint64)
    got = _process_vm_readv(pid, local.ctypes.data, 1, remote.ctypes.data, len(remote), 0)
    if got != into.nbytes:
        reason = os.strerror(ctypes.get_errno()) if got < 0 else f"{got} of {into.nbytes} bytes"
        raise MachineError("capture_failed", f"The memory of process {pid} could not be read ({reason}); nothing was saved.")


def _write(fd: int, data: npt.NDArray[np.uint8], offset: int) -> None:
    rest = data.data
    while rest:
        written = os.pwrite(fd, rest, offset)
        rest, offset = rest[written:], offset + written
