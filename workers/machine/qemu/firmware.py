"""The firmware blobs that QEMU loads into a machine of ours: part of what must be equal for a resume."""

import hashlib

from workers.machine.digests import file_sha256
from workers.machine.driver import MachineError
from workers.machine.qemu.binary import QemuBinary

# The BIOS; the ROMs that start a kernel given with -kernel (bzImage, PVH); the APIC helper that is loaded for every PC.
REQUIRED = ("bios-256k.bin", "linuxboot_dma.bin", "kvmvapic.bin")
OPTIONAL = ("pvh.bin",)


def firmware_digest(qemu: QemuBinary) -> str:
    """One digest over names and contents. Raises `hypervisor_missing` naming a required blob that is not there."""
    lines = []
    for name in (*REQUIRED, *OPTIONAL):
        path = next((folder / name for folder in qemu.data_directories if (folder / name).is_file()), None)
        if path is not None:
            lines.append(f"{name} {file_sha256(path.resolve())}\n")
        elif name in REQUIRED:
            raise MachineError("hypervisor_missing", f"QEMU finds no firmware {name}. Install seabios and qemu-system-data.")
    return hashlib.sha256("".join(lines).encode()).hexdigest()
