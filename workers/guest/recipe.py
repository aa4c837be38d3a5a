"""Recipes: what an image is made of, as data."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from workers.guest.errors import ImageError

GUEST_FILES = Path(__file__).parent / "files"
RELAY_FILES = Path(__file__).parent / "relay"
# What shapes an image beside its recipe: when one of these changes, an old result is not reused.
BUILDER_FILES = (
    "bzimage.py",
    "cpio.py",
    "elf.py",
    "hwclock_program.py",
    "ingredients.py",
    "initramfs.py",
    "kernel.py",
    "layout.py",
    "rootdisk.sh",
    "seed_program.py",
    "static_program.py",
)

# Loaded in the initramfs, each with what it depends on; what the kernel has built in is skipped. A name that ends in "?" may be missing.
MACHINE_MODULES = ("virtio_pci", "virtio_console", "virtio-rng", "virtio_net")
# quiet: writing to an emulated serial port is slow. panic=-1, reboot=t: a dead guest ends its QEMU at once (-no-reboot).
# no_timer_check: the check can fail under emulation on a busy host, and has no use in a virtual machine.
# tsc=unstable: a machine resumes at another moment or on another host, where the TSC differs; time comes from kvm-clock under KVM and
# from the HPET under emulation, which are saved with the machine. cryptomgr.notests: tests of the kernel's own ciphers, a tenth of a boot.
COMMAND_LINE = "console=ttyS0 quiet panic=-1 reboot=t no_timer_check tsc=unstable cryptomgr.notests"
# Another serial port; and none of the workarounds above, which are about x86: resets go through PSCI, time comes from the generic timer.
ARM64_COMMAND_LINE = "console=ttyAMA0 quiet panic=-1 cryptomgr.notests"


@dataclass(frozen=True)
class Recipe:
    """`packages` are installed in the root disk; a recipe without a disk lives in its initramfs and has only busybox and qemu-ga."""

    name: str
    architecture: str  # as the kernel says it (uname -m)
    modules: tuple[str, ...]
    command_line: str
    default_memory_mib: int
    disk_bytes: int = 0  # virtual size of the ext4 root disk; 0 for none
    packages: tuple[str, ...] = ()


TINY = Recipe("tiny", "x86_64", MACHINE_MODULES, COMMAND_LINE, 128)
TINY_ARM64 = replace(TINY, name="tiny-arm64", architecture="aarch64", command_line=ARM64_COMMAND_LINE)
DEBIAN_PYTHON = Recipe(
    "debian-python",
    "x86_64",
    (*MACHINE_MODULES, "virtio_blk", "crc32c_generic?", "ext4"),  # ext4 asks for crc32c by another name; newer kernels have it inside
    COMMAND_LINE,
    1024,
    disk_bytes=4 << 30,
    packages=("qemu-guest-agent", "python3", "git", "curl", "tmux", "ca-certificates", "mount", "procps"),
)
RECIPES = {recipe.name: recipe for recipe in (TINY, TINY_ARM64, DEBIAN_PYTHON)}


def find_recipe(name: str) -> Recipe:
    """Raises ImageError that names the recipes there are."""
    if name not in RECIPES:
        raise ImageError(f"There is no image recipe {name!r}. The recipes are: {', '.join(RECIPES)}.")
    return RECIPES[name]


def guest_files() -> dict[str, bytes]:
    """Name and content of every script that runs inside a guest."""
    return {path.name: path.read_bytes() for path in sorted(GUEST_FILES.iterdir()) if path.is_file()}


def files_of(recipe: Recipe) -> dict[str, bytes]:
    """What of ours is in its image, by name: `relay/NAME` are the relay's, where there is a disk with a Python."""
    relay = sorted(RELAY_FILES.glob("*.py")) if recipe.disk_bytes else []
    return guest_files() | {f"relay/{path.name}": path.read_bytes() for path in relay}


def recipe_digest(recipe: Recipe, distribution: str, files: dict[str, bytes]) -> str:
    """SHA-256 over everything that decides what is built, except the versions of packages.

    A new version in the archive does not make an image stale by itself: whoever wants it builds afresh (`--fresh`).
    """
    builder = {name: (GUEST_FILES.parent / name).read_bytes() for name in BUILDER_FILES}
    text = {
        "distribution": distribution,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in (builder | files).items()},
        "recipe": asdict(recipe),
    }
    return hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()
