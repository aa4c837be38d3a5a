"""A root of its own for one thread: namespaces that hold the named files and nothing else, no network either. Needs CAP_SYS_ADMIN.

The kernel keeps root, working directory and namespaces per thread; a process that such a thread starts inherits them, and nobody else sees
them. The namespace, with its mounts, is gone when its last process is.
"""

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CLONE_FS, CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWNET = 0x200, 0x20000, 0x8000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
ROOT_OPTIONS = "size=256k,nr_inodes=512,mode=755"
OLD_ROOT = ".old"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


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
    _check(_libc.unshare(CLONE_FS | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET), "unshare")
    _mount(None, "/", MS_REC | MS_PRIVATE)
    root = str(mount_point)
    _mount("tmpfs", root, MS_NOSUID | MS_NODEV, "tmpfs", ROOT_OPTIONS)
    for paths, flags in (
        (view.programs, MS_RDONLY | MS_NOSUID | MS_NODEV),
        (view.files, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC),
        (view.writable, MS_NOSUID | MS_NODEV | MS_NOEXEC),
        (view.devices, MS_NOSUID | MS_NOEXEC),
    ):
        _bind_all(root, paths, flags)
    _pivot(root)
    _mount(None, "/", MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _bind_all(root: str, paths: Iterable[Path], flags: int) -> None:
    for path in paths:
        target = Path(root + str(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            target.symlink_to(os.readlink(path))
            continue
        if not target.exists():  # what lies in a directory that is seen already is there
            target.mkdir() if path.is_dir() else target.touch()
        _mount(str(path), str(target), MS_BIND)
        _mount(None, str(target), MS_BIND | MS_REMOUNT | flags)


def _pivot(root: str) -> None:
    old = f"{root}/{OLD_ROOT}"
    os.mkdir(old)
    _check(_libc.syscall(_PIVOT_ROOT[os.uname().machine], root.encode(), old.encode()), "pivot_root")
    os.chdir("/")
    _check(_libc.umount2(f"/{OLD_ROOT}".encode(), MNT_DETACH), "umount")
    os.rmdir(f"/{OLD_ROOT}")


def _mount(source: str | None, target: str, flags: int, kind: str | None = None, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    _check(_libc.mount(*words, flags, None if options is None else options.encode()), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
