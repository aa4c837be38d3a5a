"""Save one moment of a machine. All that can be done beforehand is done before the stop; each part of the pause is timed.

    prepare: room, next overlay, buffer, files | guest channel quiet | stop, device state, disk snapshot, written pages, continue

Devices, disk and memory are one moment because between the stop and the end nothing may change the guest: its processors stand still,
QEMU has drained the disk, and the guest channel is held, for a byte sent to a stopped guest is written into its memory all the same.
A failure sets the machine going again. A snapshot that was taken before it stays in the chain, where the next capture finds it.
"""

import errno
import os
import select
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workers import crash
from workers.machine.driver import PAGE_BYTES, Capture, MachineError
from workers.machine.memory.copy import PageCopier
from workers.machine.memory.mapping import find_mapping
from workers.machine.memory.pagemap import written_pages
from workers.machine.process import alive
from workers.machine.qemu.argv import OPERATIONS_SOCKET
from workers.machine.qemu.disk import add_next_overlay, live_overlays, remove_unused_overlay
from workers.machine.qemu.guest_hold import still
from workers.machine.qemu.monitor import Monitor, MonitorError, MonitorSilent, as_machine_error
from workers.machine.qemu.vcpus import run_vcpus, stop_vcpus

QUIET_SECONDS = 15.0
SAVE_DEVICES_SECONDS = 60.0
ROOM_BYTES = 64 * 1024 * 1024  # beyond the pages: device state, the next overlay's tables, pages written until the stop
ALMOST_FULL_BYTES = 1024 * 1024
PAGES_NAME, DEVICES_NAME = "pages", "devices"


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


@dataclass
class _Clock:
    """Seconds of each part of the pause, in order."""

    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.parts[name] = time.perf_counter() - began


def capture(subject: Subject, staging: Path, continue_after: bool) -> Capture:
    """The contract's `capture`. What it wrote into `staging` is removed again if it fails."""
    if not staging.is_dir() or any(staging.iterdir()):
        raise MachineError("capture_failed", f"{staging} is not an empty directory. Nothing was saved and the machine was not stopped.")
    try:
        with Monitor(subject.runtime, OPERATIONS_SOCKET) as monitor:
            return _capture(monitor, subject, staging, continue_after)
    except (MonitorError, MonitorSilent, OSError, MachineError) as error:
        for name in (PAGES_NAME, DEVICES_NAME):
            (staging / name).unlink(missing_ok=True)
        raise _as_capture_error(error, subject) from error


def _capture(monitor: Monitor, subject: Subject, staging: Path, continue_after: bool) -> Capture:
    was_running = monitor.status() == "running"
    overlays = live_overlays(monitor, subject.runtime)
    clock = _Clock()
    with ExitStack() as stack:
        source = stack.enter_context(_open_source(subject, staging / PAGES_NAME))
        source.reserve(staging, subject.runtime)
        next_overlay = add_next_overlay(monitor, subject.runtime, subject.disk_bytes or 0, overlays) if overlays else None
        crash.reach("overlay_prepared")
        stack.enter_context(still(monitor, subject.runtime, time.monotonic() + QUIET_SECONDS, guest_runs=was_running))
        switched = False
        try:
            with clock.part("stop"):
                stop_vcpus(monitor)
            crash.reach("stopped")
            with clock.part("devices"):
                arguments = {"filename": str((staging / DEVICES_NAME).resolve()), "live": False}
                monitor.call("xen-save-devices-state", arguments, SAVE_DEVICES_SECONDS)
            crash.reach("devices_saved")
            with clock.part("disk"):
                if next_overlay is not None:
                    monitor.call("blockdev-snapshot", {"node": overlays[-1].stem, "overlay": f"overlay-{next_overlay}"})
                    switched = True
            crash.reach("disk_switched")
            with clock.part("pages"):
                pages = source.copy_written()
            crash.reach("pages_copied")
        except BaseException:
            if was_running:
                run_vcpus(monitor)
            if next_overlay is not None and not switched:
                remove_unused_overlay(monitor, subject.runtime, next_overlay)
            raise
        with clock.part("continue"):
            if continue_after:
                run_vcpus(monitor)
        crash.reach("continued")
    return Capture(
        page_numbers=pages,
        pages=staging / PAGES_NAME,
        memory_base=subject.memory,
        disk_base=subject.disk_base,
        overlays=tuple(overlays),
        devices=staging / DEVICES_NAME,
        pause_seconds=sum(clock.parts.values()),
        pause_parts=clock.parts,
    )


class _Source:
    """The memory of the machine's process and the file that its written pages go to."""

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
                raise MachineError("no_space", f"{directory} has {free >> 20} MiB free and a save needs {wanted >> 20}. The machine was not stopped.")
        self._copier.reserve(self._out_fd, pages)

    def copy_written(self) -> npt.NDArray[np.int64]:
        pages = written_pages(self._pagemap_fd, self._segments)
        self._copier.copy(self._pid, self._segments, pages, self._out_fd)
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        if ended.poll(0):  # then the process id may have named another one
            raise MachineError("machine_dead", "The machine's process ended while it was saved; nothing was saved.")
        return pages


@contextmanager
def _open_source(subject: Subject, pages_path: Path) -> Iterator[_Source]:
    with ExitStack() as stack:
        pidfd = os.pidfd_open(subject.pid)
        stack.callback(os.close, pidfd)
        pagemap = os.open(f"/proc/{subject.pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, pagemap)
        out = os.open(pages_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, out)
        if not alive.is_held(subject.runtime):
            raise MachineError("machine_dead", "The machine's process is gone; nothing was saved.")
        yield _Source(subject, pidfd, pagemap, out)


def _as_capture_error(error: Exception, subject: Subject) -> MachineError:
    if isinstance(error, MachineError) and error.code in ("no_space", "machine_dead", "capture_failed"):
        return error
    if (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)) or _is_full(error, subject.runtime):
        return MachineError("no_space", f"The disk is full: {error}. Nothing was saved and the machine goes on as before; free some space, save again.")
    return as_machine_error(error, "capture_failed", subject.runtime, "Nothing was saved")


def _is_full(error: Exception, runtime: Path) -> bool:
    """QEMU tells the cause of a file that it could not open, and none for one that it could not write to its end."""
    return isinstance(error, MonitorError) and ("No space left" in str(error) or shutil.disk_usage(runtime).free < ALMOST_FULL_BYTES)
