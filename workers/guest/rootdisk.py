"""The root disk of an image with one: installed by mmdebstrap, written as a sparse ext4 file by mke2fs, never mounted."""

import os
from pathlib import Path

from workers.guest.commands import as_root, run
from workers.guest.distribution import Distribution, apt_settings
from workers.guest.layout import BUSYBOX, LOGIN, SHELL, guest_paths, python_paths
from workers.guest.recipe import Recipe

STEP = Path(__file__).with_name("rootdisk.sh")


def make_root_disk(
    recipe: Recipe, distribution: Distribution, files: dict[str, bytes], busybox: bytes, work: Path, disk: Path
) -> dict[str, str]:
    """Write the raw disk and return the packages installed in it.

    Prerequisites: `work` holds the archive's sources.list. Needs root's rights (sudo for an ordinary user) for rootdisk.sh alone.
    On failure: ImageError; what is left under `work` may be root's.
    """
    ours = guest_paths(files) | python_paths(files) | {BUSYBOX: busybox, "etc/profile.d/keepstate.sh": LOGIN}
    for path, content in ours.items():
        place = work / "overlay" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o755)
    (work / "overlay" / SHELL).symlink_to(Path(BUSYBOX).name)
    (work / "apt.conf").write_text(apt_settings())
    with disk.open("wb") as file:
        file.truncate(recipe.disk_bytes)
    owner = f"{os.getuid()}:{os.getgid()}"
    # Its own mounts (mmdebstrap's /proc, /sys, /dev) and processes, which end with it: what is left of a killed build is plain files.
    alone = ["unshare", "--mount-proc", "--propagation=private", "--pid", "--fork", "--kill-child"]
    run(as_root([*alone, "sh", STEP, work, disk, distribution.codename, ",".join(recipe.packages), owner]))
    return dict(line.split() for line in (work / "installed").read_text().splitlines())
