"""A control group (v2) for each machine, below a directory that was delegated to the worker: the kernel bounds its memory and processes."""

import errno
from pathlib import Path

PREFIX = "machine-"
#: Beyond the guest's memory: QEMU itself, its buffers, the page cache that it must keep.
MARGIN_BYTES = 256 * 1024 * 1024
#: QEMU's buffer of translated code grows to this where there is no KVM.
TRANSLATION_BYTES = 1024 * 1024 * 1024
PROCESSES = 512  # threads count: virtual CPUs, and up to 64 for disk requests


def usable(base: Path) -> str | None:
    """What is wrong with the delegated directory, or None."""
    try:
        controllers = (base / "cgroup.controllers").read_text().split()
    except OSError as error:
        return f"{base} is not a cgroup v2 directory ({error.strerror})"
    missing = {"memory", "pids"} - set(controllers)
    return f"{base} has no controller {', '.join(sorted(missing))}" if missing else None


def enclose(base: Path, name: str, pid: int, memory_bytes: int, *, emulated: bool) -> None:
    """Put a process that has just started into a group of its own; groups of machines that are gone are removed.

    Raises OSError, in words of its own where the delegated directory is not what it must be.
    """
    _sweep(base)
    limits = {
        "memory.max": memory_bytes + MARGIN_BYTES + (TRANSLATION_BYTES if emulated else 0),
        "memory.oom.group": 1,
        "pids.max": PROCESSES,
    }
    try:
        _fill(base / (PREFIX + name), limits, pid)
    except FileNotFoundError as error:  # another worker's sweep took it while it was empty, or
        wrong = usable(base)
        if wrong is not None:
            raise OSError(error.errno, f"a machine can have no control group: {wrong}") from error
        _fill(base / (PREFIX + name), limits, pid)


def _fill(group: Path, limits: dict[str, int], pid: int) -> None:
    try:
        (group.parent / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EACCES):  # delegated with its controllers on, and no more to be changed
            raise
    group.mkdir(exist_ok=True)
    for file, value in limits.items():
        (group / file).write_text(str(value))
    (group / "cgroup.procs").write_text(str(pid))


def _sweep(base: Path) -> None:
    """The kernel removes only a group that has no process."""
    for group in base.glob(PREFIX + "*"):
        try:
            group.rmdir()
        except OSError:
            continue
