"""What differs between the architectures that QEMU emulates for us, as data. Everything else of this package is the same for all."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from workers.machine.driver import MachineError


@dataclass(frozen=True)
class Platform:
    """One architecture. `devices` come beside those that every machine has (see argv.py)."""

    architecture: str  # as the kernel says it (uname -m)
    program: str
    package: str
    machine_family: str  # its newest version is used, never the alias without one
    machine_options: tuple[str, ...]
    emulated_cpu: str
    devices: tuple[Mapping[str, object], ...]
    globals: tuple[str, ...]
    serial: str  # the port that `-serial` gives this machine; it is part of the device layout
    firmware: tuple[str, ...]
    optional_firmware: tuple[str, ...]
    firmware_package: str
    processor_lines: tuple[str, ...]  # of /proc/cpuinfo: what tells one model of processor, and its microcode, from another

    @property
    def tells_of_clones(self) -> bool:
        """The guest's kernel sees by itself that it was resumed, and reseeds its generator before anything else draws from it."""
        return any(device["driver"] == "vmgenid" for device in self.devices)

    def cpu(self, accelerator_name: str) -> str:
        return "host" if accelerator_name == "kvm" else self.emulated_cpu

    def machine(self, machine_type: str) -> str:
        return ",".join((machine_type, *self.machine_options))

    def newest_machine_type(self, machine_help: str) -> str | None:
        """From what `-machine help` prints; None if no versioned type of the family is there."""
        found = re.findall(rf"^{re.escape(self.machine_family)}-(\d+)\.(\d+)\s", machine_help, re.MULTILINE)
        if not found:
            return None
        major, minor = max((int(major), int(minor)) for major, minor in found)
        return f"{self.machine_family}-{major}.{minor}"


X86_64 = Platform(
    architecture="x86_64",
    program="qemu-system-x86_64",
    package="qemu-system-x86",
    machine_family="pc-q35",
    machine_options=(),
    emulated_cpu="max",
    devices=(
        {"driver": "vmgenid", "guid": "auto", "id": "genid0"},
    ),  # QEMU draws a new id for every process: the guest reseeds after a resume
    globals=("ICH9-LPC.disable_s3=1", "ICH9-LPC.disable_s4=1"),
    serial="isa-serial",
    # The BIOS; the ROMs that start a kernel given with -kernel (bzImage, PVH); the APIC helper that is loaded for every PC.
    firmware=("bios-256k.bin", "linuxboot_dma.bin", "kvmvapic.bin"),
    optional_firmware=("pvh.bin",),
    firmware_package="seabios and qemu-system-data",
    processor_lines=("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags"),
)
# The interrupt controller's version must be the same at a save and at its resume, so it is named. Emulated pointer authentication by the
# architected algorithm costs more than the rest of the guest's work; the implementation-defined one is a cheap hash. There is no vmgenid
# for this machine: who resumes it gives its generator fresh bytes. A kernel given with -kernel is started without any firmware.
AARCH64 = Platform(
    architecture="aarch64",
    program="qemu-system-aarch64",
    package="qemu-system-arm",
    machine_family="virt",
    machine_options=("gic-version=3",),
    emulated_cpu="max,pauth-impdef=on",
    devices=(),
    globals=(),
    serial="pl011",
    firmware=(),
    optional_firmware=(),
    firmware_package="",
    processor_lines=("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
)
PLATFORMS = {platform.architecture: platform for platform in (X86_64, AARCH64)}


def platform_of(architecture: str) -> Platform:
    """Raises `hypervisor_missing` for an architecture that this driver does not run."""
    if architecture not in PLATFORMS:
        raise MachineError("hypervisor_missing", f"No machine driver for {architecture}; this one runs {', '.join(sorted(PLATFORMS))}.")
    return PLATFORMS[architecture]


def installed() -> frozenset[str]:
    """The architectures whose QEMU this host has."""
    return frozenset(platform.architecture for platform in PLATFORMS.values() if shutil.which(platform.program))
