"""The memory half of a capture: the process's written pages, and the file that they go to."""

import os
import select
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workers.machine.driver import PAGE_BYTES, MachineError
from workers.machine.memory.copy import PageCopier
from workers.machine.memory.mapping import find_mapping
from workers.machine.memory.pagemap import written_pages
from workers.machine.process import alive

ROOM_BYTES = 64 * 1024 * 1024  # beyond the pages: device state, the next overlay's tables, pages written until the stop


@dataclass(frozen=True)
class Subject:
    """The machine to be saved, as its record says."""

    runtime: Path
    pid: int
    memory: Path
    memory_inode: int
    memory_bytes: int
    disk_bytes: int | None
    disk_base: Path | None


class WrittenMemory:
    """Made while the machine runs; `copy` is called while it stands still."""

    def __init__(self, subject: Subject, pidfd: int, pagemap_fd: int, out_fd: int):
        self._pid, self._pidfd, self._pagemap_fd, self._out_fd = subject.pid, pidfd, pagemap_fd, out_fd
        self._segments = find_mapping(subject.pid, subject.memory_inode, subject.memory_bytes)
        self._copier = PageCopier()

    def reserve(self, staging: Path, runtime: Path) -> None:
        """Raises `no_space` now, while the machine runs, and not in the middle of its pause."""
        pages = len(written_pages(self._pagemap_fd, self._segments))
        for directory, wanted in ((staging, pages * PAGE_BYTES + ROOM_BYTES), (runtime, ROOM_BYTES)):
            free = shutil.disk_usage(directory).free
            if free < wanted:
                told = f"{directory} has {free >> 20} MiB free, a save needs {wanted >> 20}. The machine was not stopped."
                raise MachineError("no_space", told)
        self._copier.reserve(self._out_fd, pages)

    def copy(self) -> npt.NDArray[np.int64]:
        """The written pages' numbers; their bytes are the file's. Raises OSError, `capture_failed`, `machine_dead`."""
        pages = written_pages(self._pagemap_fd, self._segments)
        self._copier.copy(self._pid, self._segments, pages, self._out_fd)
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        if ended.poll(0):  # then the process id may have named another one
            raise MachineError("machine_dead", "The machine's process ended while it was saved; nothing was saved.")
        return pages


@contextmanager
def open_memory(subject: Subject, pages_path: Path) -> Iterator[WrittenMemory]:
    """Raises OSError, `machine_dead`, `capture_failed`."""
    with ExitStack() as stack:
        pidfd = os.pidfd_open(subject.pid)
        stack.callback(os.close, pidfd)
        pagemap = os.open(f"/proc/{subject.pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, pagemap)
        out = os.open(pages_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, out)
        if not alive.is_held(subject.runtime):  # asked after the process was opened: it was the machine, then
            raise MachineError("machine_dead", "The machine's process is gone; nothing was saved.")
        yield WrittenMemory(subject, pidfd, pagemap, out)
