"""A new machine from an image: memory is a sparse file of zeros, the disk an overlay over the image's."""

import time
from pathlib import Path

from workers.machine.driver import GuestImage, MachineError, MachineSpec
from workers.machine.process.isolation import Isolation
from workers.machine.process.uids import give
from workers.machine.qemu.argv import INSPECTION_SOCKET, OPERATIONS_SOCKET, Accelerator, command_line
from workers.machine.qemu.binary import QemuBinary
from workers.machine.qemu.disk import starting_chain
from workers.machine.qemu.guest import converse
from workers.machine.qemu.monitor import Monitor, wait_for_monitor
from workers.machine.qemu.start import check_parts, needs_of, record_of, starting

MEMORY_NAME = "memory.img"


def boot(
    runtime: Path,
    qemu: QemuBinary,
    accelerator: Accelerator,
    spec: MachineSpec,
    image: GuestImage,
    timeout_seconds: float,
    isolation: Isolation,
    networks: Path | None = None,
) -> None:
    """The contract's `boot`: on return the machine of `runtime` runs and its guest has answered."""
    deadline = time.monotonic() + timeout_seconds
    check_parts(spec, image, "boot_failed")
    with starting(runtime, "boot_failed", isolation) as start:
        memory = runtime / MEMORY_NAME
        with open(memory, "xb") as file:
            file.truncate(spec.memory_bytes)
        give(memory)
        disk = starting_chain(runtime, image, None, "boot_failed")
        netdev = start.connect(networks if spec.network else None)
        argv = command_line(qemu, accelerator, spec, image, memory.resolve(), disk, incoming=False, netdev=netdev)
        start.launch(argv, record_of(spec, image, memory.resolve()), needs_of(qemu, accelerator, image, memory.resolve(), None))
        with wait_for_monitor(runtime, OPERATIONS_SOCKET, deadline) as monitor:
            monitor.call("cont")
        converse(runtime, deadline, lambda _: None, lambda: _check_still_booting(runtime))  # a guest that synchronises has answered


def _check_still_booting(runtime: Path) -> None:
    """A guest that panicked or shut down will not answer: say so now and not when the time is over."""
    with Monitor(runtime, INSPECTION_SOCKET) as monitor:
        status = monitor.status()
    if status != "running":
        raise MachineError("boot_failed", f"The guest ended while it booted (QEMU's state: {status}).")
