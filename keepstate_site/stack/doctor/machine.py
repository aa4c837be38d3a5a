"""Disk, memory, and whether this host may use hardware acceleration."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from keepstate_site.stack.doctor.finding import Finding, failed, ok, unknown, warn
from keepstate_site.stack.paths import default_root

GIB = 1 << 30
DISK_NEEDED, DISK_ADVISED = 4, 20  # GiB: two images and a machine; room for work
MEMORY_NEEDED, MEMORY_ADVISED = 2, 4


def disk() -> Iterator[Finding]:
    place = default_root()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / GIB
    yield _judge(
        "disk",
        f"{free:.1f} GiB free below {place}",
        free,
        DISK_NEEDED,
        DISK_ADVISED,
        "free some space, or set KEEPSTATE_VAR to a larger disk",
    )


def memory() -> Iterator[Finding]:
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024 / GIB
    yield _judge(
        "memory", f"{available:.1f} GiB available", available, MEMORY_NEEDED, MEMORY_ADVISED, "end other programs; a demo machine has 1 GiB"
    )


def _judge(name: str, text: str, have: float, needed: float, advised: float, fix: str) -> Finding:
    if have < needed:
        return failed(name, f"{text}; {needed} GiB are needed", fix)
    return ok(name, text) if have >= advised else warn(name, f"{text}; {advised} GiB are better", fix)


def kvm() -> Iterator[Finding]:
    """A device that opens proves nothing: only a machine that has booted under it does, and the workers keep that result."""
    device = "/dev/kvm"
    if not os.path.exists(device):
        yield warn(
            "kvm", f"{device} does not exist: machines are emulated, which is slower", "enable virtualisation, where the host has it"
        )
        return
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError as error:
        yield warn("kvm", f"{device} cannot be opened ({error.strerror}): machines are emulated", "add this user to the group kvm")
        return
    proofs = proofs_of_this_boot(default_root())
    if "kvm" in proofs:
        yield ok("kvm", f"{device} opens, and a guest image has booted under it")
    elif proofs:
        yield warn("kvm", f"{device} opens, but no guest image booted under it: machines are emulated", "see whether nested KVM is allowed")
    else:
        yield unknown("kvm", f"{device} opens, which is no proof; the first start boots an image under it and records the result")


def proofs_of_this_boot(root: Path) -> set[str]:
    """`kvm` and `tcg`, as this root's workers have proved since the host started. Their file maps "boot, hypervisor, image" to one."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    found: set[str] = set()
    for file in root.glob("host/*/accelerators.json"):
        found |= {answer for key, answer in json.loads(file.read_text()).items() if key.startswith(boot)}
    return found
