"""The kernel's calls for namespaces and mounts, which Python before 3.12 does not have. All raise OSError."""

import ctypes
import os

CLONE_FS, CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWNET = 0x200, 0x20000, 0x8000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def unshare(flags: int) -> None:
    """Of the calling thread alone."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Of the calling thread alone."""
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str | None, target: str, flags: int, kind: str | None = None, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check(_libc.mount(*words, flags, None if options is None else options.encode()), f"mount {target}")


def unmount(target: str, flags: int) -> None:
    _check(_libc.umount2(os.fsencode(target), flags), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    _check(_libc.syscall(_PIVOT_ROOT[os.uname().machine], os.fsencode(new), os.fsencode(old)), "pivot_root")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
