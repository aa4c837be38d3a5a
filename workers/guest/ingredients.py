"""From a recipe to the files of an image: every step that is not specific to a root disk.

Nothing of the image is executed here, so an image without a root disk may be of another architecture than the host.
"""

import platform
from collections.abc import Callable
from pathlib import Path

from workers.guest import cpio, initramfs, kernel
from workers.guest.archive import Archive, unpack
from workers.guest.bzimage import bootable
from workers.guest.distribution import Distribution, archive_sources, debian_architecture
from workers.guest.errors import ImageError
from workers.guest.hwclock_program import hwclock_program
from workers.guest.image import DISK
from workers.guest.recipe import Recipe
from workers.guest.rootdisk import make_root_disk
from workers.guest.seed_program import seed_program

Say = Callable[[str], None]
# Not Debian's cloud kernel: the one of Debian 12 has no vmgenid driver, by which a resumed guest's random generator is reseeded.
KERNEL_PACKAGES = {"debian": "linux-image-{}", "ubuntu": "linux-image-virtual"}


def make_files(recipe: Recipe, distribution: Distribution, files: dict[str, bytes], work: Path, result: Path, say: Say) -> dict[str, str]:
    """Put `kernel`, `initrd` and, if the recipe has one, the root disk into `result`; return the packages used and their versions.

    `work` is scratch space that the caller removes. Raises ImageError; `result` is then incomplete.
    """
    if recipe.disk_bytes and recipe.architecture != platform.machine():
        raise ImageError(f"An image with a root disk is built on a host of its architecture: {recipe.architecture}. Nothing was fetched.")
    files = files | {"seed": seed_program(recipe.architecture), "clock": hwclock_program(recipe.architecture)}
    archive = Archive(archive_sources(distribution, recipe.architecture), work)
    tree = work / "tree"
    say("fetching the kernel")
    name = KERNEL_PACKAGES[distribution.id].format(debian_architecture(recipe.architecture))
    packages = unpack(archive.fetch_kernel(name), tree)
    say("fetching busybox and the guest agent" if not recipe.disk_bytes else "fetching busybox")
    wanted = ["busybox-static"] if recipe.disk_bytes else ["busybox-static", "qemu-guest-agent"]
    packages |= unpack(archive.fetch_with_dependencies(*wanted), tree)
    found = kernel.find_kernel(tree)
    (result / "kernel").write_bytes(bootable(found.image.read_bytes()))
    say(f"writing the initramfs (kernel {found.release})")
    busybox = next(path for path in (tree / "usr/bin/busybox", tree / "bin/busybox") if path.is_file()).read_bytes()
    entries = initramfs.base(busybox, kernel.modules_in_order(found, recipe.modules), files)
    if not recipe.disk_bytes:
        entries += initramfs.whole_guest(files, tree)
    (result / "initrd").write_bytes(cpio.archive(entries))
    if recipe.disk_bytes:
        say("installing the root disk (some minutes)")
        packages |= make_root_disk(recipe, distribution, files, busybox, work, result / DISK)
    return packages
