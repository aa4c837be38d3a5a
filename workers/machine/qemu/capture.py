"""Save one moment of a machine. All that can be done beforehand is done before the stop; each part of the pause is timed.

    prepare: room, next overlay, buffer, files | guest channel still | stop, device state, disk snapshot, written pages, continue

Devices, disk and memory are one moment because between the stop and the end nothing may change the guest: its processors stand still,
QEMU has drained the disk, and the guest channel and the terminal are held, for a byte sent to a stopped guest is written into its memory
all the same.
A failure sets the machine going again. A snapshot that was taken before it stays in the chain, where the next capture finds it.
"""

import errno
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workers import crash
from workers.machine.driver import Capture, MachineError, nothing
from workers.machine.qemu.argv import INSPECTION_SOCKET, OPERATIONS_SOCKET
from workers.machine.qemu.capture_memory import Subject, WrittenMemory, open_memory
from workers.machine.qemu.descriptors import receiving
from workers.machine.qemu.disk import NextOverlay, add_next_overlay, live_overlays, remove_unused_overlay
from workers.machine.qemu.flatten import settle
from workers.machine.qemu.guest_freeze import held_still
from workers.machine.qemu.guest_hold import still
from workers.machine.qemu.monitor import Monitor, MonitorError, MonitorSilent, as_machine_error
from workers.machine.qemu.terminal import terminal_still
from workers.machine.qemu.vcpus import run_vcpus, stop_vcpus

QUIET_SECONDS = 15.0
SAVE_DEVICES_SECONDS = 60.0
ALMOST_FULL_BYTES = 1024 * 1024
PAGES_NAME, DEVICES_NAME = "pages", "devices"
DEVICES_BYTES = 64 * 1024 * 1024  # a fraction of one MiB, as a rule


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


def capture(
    subject: Subject, staging: Path, continue_after: bool, at_stop: Callable[[], None] = nothing, *, hold_programs: bool = False
) -> Capture:
    """The contract's `capture`. What it wrote into `staging` is removed again if it fails.

    `hold_programs`: the guest's programs stand still from before the stopped window until they are greeted, or go on after it.
    """
    if not staging.is_dir() or any(staging.iterdir()):
        raise MachineError("capture_failed", f"{staging} is not an empty directory. Nothing was saved and the machine was not stopped.")
    clock = _Clock()
    try:
        with Monitor(subject.runtime, OPERATIONS_SOCKET) as monitor:
            overlays, pages = _capture(monitor, subject, staging, continue_after, at_stop, clock, hold_programs)
        _require_bounded(staging / DEVICES_NAME)
    except (MonitorError, MonitorSilent, OSError, MachineError) as error:
        for name in (PAGES_NAME, DEVICES_NAME):
            (staging / name).unlink(missing_ok=True)
        raise _as_capture_error(error, subject) from error
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


def _require_bounded(devices: Path) -> None:
    """The device state is read whole into memory, and a QEMU that its guest has taken over writes what it likes."""
    if devices.stat().st_size > DEVICES_BYTES:
        raise MachineError("capture_failed", f"QEMU wrote a device state of more than {DEVICES_BYTES >> 20} MiB; nothing was saved.")


def _capture(
    monitor: Monitor, subject: Subject, staging: Path, continue_after: bool, at_stop: Callable[[], None], clock: _Clock, hold_programs: bool
) -> tuple[list[Path], npt.NDArray[np.int64]]:
    """(frozen overlays, written pages)"""
    was_running = monitor.status() == "running"
    settle(monitor, subject.runtime)
    overlays = live_overlays(monitor, subject.runtime)
    with ExitStack() as stack:
        memory = stack.enter_context(open_memory(subject, staging / PAGES_NAME))
        memory.reserve(staging, subject.runtime)
        devices = stack.enter_context(receiving(monitor, staging / DEVICES_NAME))
        following = add_next_overlay(monitor, subject.runtime, subject.disk_bytes or 0, overlays) if overlays else None
        try:
            crash.reach("overlay_prepared")
            stack.enter_context(terminal_still(monitor, subject.runtime, time.monotonic() + QUIET_SECONDS))
            guest = stack.enter_context(still(monitor, subject.runtime, time.monotonic() + QUIET_SECONDS, guest_runs=was_running))
            if hold_programs:
                stack.enter_context(held_still(monitor, subject.runtime, guest))
            at_stop()
            pages = _stopped_window(monitor, memory, following, devices, clock)
            with clock.part("continue"):
                if continue_after:
                    run_vcpus(monitor)
            crash.reach("continued")
        except BaseException:
            _go_on_as_before(subject, was_running)
            _forget(monitor, subject, following)
            raise
    return overlays, pages


def _stopped_window(
    monitor: Monitor, memory: WrittenMemory, following: NextOverlay | None, devices: str, clock: _Clock
) -> npt.NDArray[np.int64]:
    """Everything of the moment. On return the virtual CPUs stand still."""
    with clock.part("stop"):
        stop_vcpus(monitor)
    crash.reach("stopped")
    with clock.part("devices"):
        monitor.call("xen-save-devices-state", {"filename": devices, "live": False}, SAVE_DEVICES_SECONDS)
    crash.reach("devices_saved")
    with clock.part("disk"):
        if following is not None:
            monitor.call("blockdev-snapshot", {"node": following.over, "overlay": following.node})
    crash.reach("disk_switched")
    with clock.part("pages"):
        pages = memory.copy()
    crash.reach("pages_copied")
    return pages


def _go_on_as_before(subject: Subject, was_running: bool) -> None:
    """Through the other monitor: the connection of the capture may be what failed. Raises `capture_failed` if the machine stays stopped."""
    if not was_running:
        return
    try:
        with Monitor(subject.runtime, INSPECTION_SOCKET) as monitor:
            run_vcpus(monitor)
    except (MonitorError, MonitorSilent) as error:
        raise as_machine_error(
            error, "capture_failed", subject.runtime, "Nothing was saved and the machine could not be set running"
        ) from error


def _forget(monitor: Monitor, subject: Subject, following: NextOverlay | None) -> None:
    """What cannot be removed now (it may be in use already) is found by the next capture."""
    if following is not None:
        try:
            remove_unused_overlay(monitor, subject.runtime, following.number)
        except (MonitorError, MonitorSilent, MachineError):
            return


def _as_capture_error(error: Exception, subject: Subject) -> MachineError:
    if isinstance(error, MachineError) and error.code in ("no_space", "machine_dead", "capture_failed"):
        return error
    if (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)) or _is_full(error, subject.runtime):
        told = f"The disk is full: {error}. Nothing was saved, the machine goes on as before. Free space and save again."
        return MachineError("no_space", told)
    return as_machine_error(error, "capture_failed", subject.runtime, "Nothing was saved")


def _is_full(error: Exception, runtime: Path) -> bool:
    """QEMU tells the cause of a file that it could not open, and none for one that it could not write to its end."""
    return isinstance(error, MonitorError) and ("No space left" in str(error) or shutil.disk_usage(runtime).free < ALMOST_FULL_BYTES)
