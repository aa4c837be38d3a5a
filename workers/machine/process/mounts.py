"""A root of its own for one thread: namespaces that hold the named files and nothing else, no network either. Needs CAP_SYS_ADMIN.

The kernel keeps root, working directory and namespaces per thread; a process that such a thread starts inherits them, and nobody else sees
them. The namespace, with its mounts, is gone when its last process is.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workers.machine.process.libc import (
    CLONE_FS,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    MNT_DETACH,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    mount,
    pivot_root,
    unmount,
    unshare,
)

ROOT_OPTIONS = "size=256k,nr_inodes=512,mode=755"
OLD_ROOT = ".old"


@dataclass(frozen=True)
class View:
    """What may be seen, each under the path that it has outside. A directory stands for all that lies in it."""

    programs: tuple[Path, ...] = ()  # read and executed
    files: tuple[Path, ...] = ()  # read
    writable: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()


def enter(view: View, mount_point: Path) -> None:
    """Give the calling thread, and whatever it starts, the view as its root; there is no way back. `mount_point` is an empty directory.

    Raises OSError; the thread must then end.
    """
    unshare(CLONE_FS | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET)
    os.umask(0o022)  # this thread's alone from here on: under a worker's closed one the machine could not enter its own root
    mount(None, "/", MS_REC | MS_PRIVATE)
    root = str(mount_point)
    mount("tmpfs", root, MS_NOSUID | MS_NODEV, "tmpfs", ROOT_OPTIONS)
    for paths, flags in (
        (view.programs, MS_RDONLY | MS_NOSUID | MS_NODEV),
        (view.files, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC),
        (view.writable, MS_NOSUID | MS_NODEV | MS_NOEXEC),
        (view.devices, MS_NOSUID | MS_NOEXEC),
    ):
        _bind_all(root, paths, flags)
    _pivot(root)
    mount(None, "/", MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _bind_all(root: str, paths: Iterable[Path], flags: int) -> None:
    for path in paths:
        target = Path(root + str(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            target.symlink_to(os.readlink(path))
            continue
        if not target.exists():  # what lies in a directory that is seen already is there
            target.mkdir() if path.is_dir() else target.touch()
        mount(str(path), str(target), MS_BIND)
        mount(None, str(target), MS_BIND | MS_REMOUNT | flags)


def _pivot(root: str) -> None:
    old = f"{root}/{OLD_ROOT}"
    os.mkdir(old)
    pivot_root(root, old)
    os.chdir("/")
    unmount(f"/{OLD_ROOT}", MNT_DETACH)
    os.rmdir(f"/{OLD_ROOT}")
