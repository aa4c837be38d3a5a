"""A machine from a saved moment. Nothing is copied: memory is mapped private, the saved disk is under a fresh overlay."""

import os
import time
from pathlib import Path

from workers.machine.driver import GuestImage, MachineError, MachineSpec, SavedState
from workers.machine.process.isolation import Isolation
from workers.machine.qemu.argv import OPERATIONS_SOCKET, Accelerator, command_line
from workers.machine.qemu.binary import QemuBinary
from workers.machine.qemu.disk import starting_chain
from workers.machine.qemu.guest_hold import HeldChannel, open_before_resume
from workers.machine.qemu.monitor import Monitor, wait_for_monitor
from workers.machine.qemu.start import check_parts, needs_of, record_of, starting

POLL_SECONDS = 0.002


def resume(
    runtime: Path,
    qemu: QemuBinary,
    accelerator: Accelerator,
    spec: MachineSpec,
    image: GuestImage,
    saved: SavedState,
    timeout_seconds: float,
    isolation: Isolation,
    networks: Path | None = None,
) -> HeldChannel:
    """The contract's `resume`: on return the machine of `runtime` holds the saved moment and its virtual CPUs have not run.

    Returns the guest's channel, open and locked, for the greeting.
    """
    deadline = time.monotonic() + timeout_seconds
    check_parts(spec, image, "resume_failed")
    _check_saved(spec, image, saved)
    with starting(runtime, "resume_failed", isolation) as start:
        saved_disk = saved.disk.resolve() if saved.disk else None
        disk = starting_chain(runtime, image, saved_disk, "resume_failed")
        memory = saved.memory.resolve()
        netdev = start.connect(networks if spec.network else None)
        argv = command_line(qemu, accelerator, spec, image, memory, disk, incoming=True, netdev=netdev)
        start.launch(argv, record_of(spec, image, memory, saved_disk), needs_of(qemu, accelerator, image, memory, saved_disk))
        with wait_for_monitor(runtime, OPERATIONS_SOCKET, deadline) as monitor:
            channel = open_before_resume(monitor, runtime)
            try:
                _load_devices(monitor, saved.devices, deadline)
            except BaseException:
                channel.close()
                raise
            return channel


def _load_devices(monitor: Monitor, devices: Path, deadline: float) -> None:
    """QEMU gets the open file and never a path or a shell's command. A state that it cannot load ends the process (7.2) or the migration
    (later).
    """
    fd = os.open(devices, os.O_RDONLY | os.O_CLOEXEC)
    try:
        monitor.send_descriptor("devices", fd)
    finally:
        os.close(fd)
    monitor.call("migrate-incoming", {"uri": "fd:devices"})
    while (status := monitor.status()) == "inmigrate":
        if time.monotonic() > deadline:
            raise MachineError("resume_failed", "The device state was not loaded in time.")
        time.sleep(POLL_SECONDS)
    progress = monitor.call("query-migrate")
    outcome = progress.get("status") if isinstance(progress, dict) else None
    if status != "paused" or outcome != "completed":
        raise MachineError("resume_failed", f"The device state was not loaded (QEMU's state: {status}, load: {outcome}).")


def _check_saved(spec: MachineSpec, image: GuestImage, saved: SavedState) -> None:
    for path in (saved.memory, saved.disk, saved.devices):
        if path is not None and not path.is_file():
            raise MachineError("resume_failed", f"The saved file {path} is not there. Nothing was started.")
    if saved.memory.stat().st_size != spec.memory_bytes:
        raise MachineError("resume_failed", f"The saved memory is not the machine's {spec.memory_bytes} bytes long. Nothing was started.")
    if saved.disk is not None and image.disk is None:
        raise MachineError("resume_failed", f"The saved state has a disk and the image {image.name} has none. Nothing was started.")
