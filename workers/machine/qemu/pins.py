"""What must be equal for a checkpoint to resume. QEMU accepts many mismatches in silence, so they are compared before it starts."""

import hashlib
import os
from pathlib import Path

from workers.machine.qemu.argv import Accelerator, device_layout
from workers.machine.qemu.binary import QemuBinary
from workers.machine.qemu.firmware import firmware_digest

CPU_LINES = ("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags")


def pin_facts(architecture: str, qemu: QemuBinary, accelerator: Accelerator) -> dict[str, str]:
    return {
        "hypervisor": "qemu",
        "architecture": architecture,
        "hypervisor_sha256": qemu.sha256,
        "firmware_sha256": firmware_digest(qemu),
        "machine_type": qemu.machine_type,
        "accelerator": accelerator.name,
        "cpu": cpu_model(accelerator),
        "devices": device_layout(with_disk=True),
        "host_kernel": os.uname().release,
    }


def cpu_model(accelerator: Accelerator) -> str:
    """TCG's `max` is the same on every host; KVM's `host` is what this host's processor is, so its identity is part of the name."""
    if accelerator.name != "kvm":
        return accelerator.cpu
    first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in CPU_LINES]
    return f"{accelerator.cpu}-{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"
