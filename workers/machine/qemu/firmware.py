"""The firmware blobs that QEMU loads into a machine of ours: part of what must be equal for a resume."""

import hashlib

from workers.machine.digests import file_sha256
from workers.machine.driver import MachineError
from workers.machine.qemu.binary import QemuBinary
from workers.machine.qemu.platform import Platform


def firmware_digest(qemu: QemuBinary, platform: Platform) -> str:
    """One digest over names and contents. Raises `hypervisor_missing` naming a required blob that is not there."""
    lines = []
    for name in (*platform.firmware, *platform.optional_firmware):
        path = next((folder / name for folder in qemu.data_directories if (folder / name).is_file()), None)
        if path is not None:
            lines.append(f"{name} {file_sha256(path.resolve())}\n")
        elif name in platform.firmware:
            raise MachineError("hypervisor_missing", f"QEMU finds no firmware {name}. Install {platform.firmware_package}.")
    return hashlib.sha256("".join(lines).encode()).hexdigest()
