"""What must be equal for a checkpoint to resume. QEMU accepts many mismatches in silence, so they are compared before it starts."""

import hashlib
import os
from pathlib import Path

from workers.machine.qemu.argv import Accelerator, device_layout
from workers.machine.qemu.binary import QemuBinary
from workers.machine.qemu.firmware import firmware_digest
from workers.machine.qemu.platform import Platform, platform_of
from workers.machine.qemu.probe import Probe, probe


def pin_facts(architecture: str, qemu: QemuBinary, accelerator: Accelerator, *, with_network: bool = True) -> dict[str, str]:
    """Texts without secrets: refusals show them. Raises `hypervisor_missing`."""
    platform = platform_of(architecture)
    machine = platform.machine(qemu.machine_type)
    seen = probe(qemu, machine, accelerator.option, platform.cpu(accelerator.name))
    return {
        "hypervisor": "qemu",
        "architecture": architecture,
        "hypervisor_sha256": qemu.sha256,
        "hypervisor_modules_sha256": seen.modules_sha256,
        "firmware_sha256": firmware_digest(qemu, platform),
        "machine_type": machine,
        "accelerator": accelerator.name,
        "cpu": cpu_model(platform, accelerator, seen),
        "devices": device_layout(architecture, with_disk=True, with_network=with_network),
        "host_kernel": os.uname().release,
    }


def cpu_model(platform: Platform, accelerator: Accelerator, seen: Probe) -> str:
    """An emulated model is the same on every host that has the same QEMU. KVM's `host` is what this host's processor is: what the guest
    sees of it, and which processor and microcode it is, are part of the name.
    """
    model = platform.cpu(accelerator.name)
    if accelerator.name != "kvm":
        return model
    first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in platform.processor_lines]
    return f"{model}-{hashlib.sha256(chr(10).join([seen.cpu_sha256, *lines]).encode()).hexdigest()}"
