"""The lazy images of this host: `<host>/lazy/<memory root>/`, each with a process that serves it (workers/lazy).

An image belongs to no machine alone: any number may have been started from it. Its process lives until none has; who is about to start a
machine from it holds it (`held`) until that machine's note names it.
"""

import contextlib
import ctypes
import fcntl
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workers.host.identity import cache_directory, host_directory, machines_directory
from workers.host.note import read_note
from workers.lazy import status
from workers.machine.driver import MachineError
from workers.machine.process.kill import kill

log = logging.getLogger(__name__)

_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def lazy_directory() -> Path:
    return host_directory() / "lazy"


def directory_of(root: str) -> Path:
    return lazy_directory() / root


def image_in(root: str) -> Path:
    return directory_of(root) / status.MOUNT / status.IMAGE


def used_by(runtime: Path) -> str:
    """The root of the lazy image that the machine of this directory was started from, or ''."""
    return str(read_note(runtime).get("lazy", ""))


def look(runtime: Path) -> dict[str, Any] | None:
    """Where the lazy image under a machine stands (workers/lazy/status.py), or None for a machine that has none."""
    root = used_by(runtime)
    return status.read(directory_of(root)) if root else None


@contextmanager
def held(root: str) -> Iterator[None]:
    """While this is held the image is not ended for want of a machine. The kernel lets go for a worker that dies."""
    with _lock(root, "use", fcntl.LOCK_SH):
        yield


@contextmanager
def single_start(root: str) -> Iterator[None]:
    """One worker of this host looks for the image's process and starts it; the others wait and find it."""
    with _lock(root, "start", fcntl.LOCK_EX):
        yield


def roots_in_use() -> set[str]:
    """The images that machines of this host were started from."""
    return {used_by(runtime) for runtime in machines_directory().glob("*")} - {""}


def end_unused() -> None:
    """End the processes of images that no machine was started from, and remove what they left. Safe at any time, beside anybody."""
    used = roots_in_use()
    for directory in lazy_directory().glob("*"):
        if directory.is_dir() and directory.name not in used:
            _end_unless_held(directory)


def end(directory: Path) -> None:
    """Kill the process and remove the directory. Machines that were started from its image die at the next byte that they had not read.

    Raises MachineError, and leaves the directory, if its process cannot be named or does not go.
    """
    process = status.process_of(directory)
    kill(directory, process)
    unmount(directory / status.MOUNT)
    if process is not None:  # what it had of the guest's memory, in the clear
        for left in (cache_directory() / "memory").glob(f"tmp-{process.pid}-*"):
            left.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def unmount(place: Path) -> None:
    """A process that was killed leaves its mount behind, on which every call fails. Harmless for a directory that is none."""
    if _libc.umount2(os.fsencode(place), _MNT_DETACH) == 0 or os.geteuid() == 0:
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["fusermount3", "-u", "-z", "-q", str(place)], check=False, capture_output=True, timeout=10)


def _end_unless_held(directory: Path) -> None:
    try:
        with _lock(directory.name, "use", fcntl.LOCK_EX | fcntl.LOCK_NB):
            end(directory)
    except BlockingIOError:
        return
    except MachineError:
        log.exception("a lazy image could not be ended", extra={"image": directory.name})


@contextmanager
def _lock(root: str, purpose: str, kind: int) -> Iterator[None]:
    """Images whose names begin alike share a lock, so that the files are few and none need ever be removed. Raises BlockingIOError."""
    place = lazy_directory()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(place / f"{root[:2]}.{purpose}.lock", "w") as handle:
        fcntl.flock(handle, kind)
        yield
