"""Start a hypervisor so that it outlives the worker: own session, nothing of ours inherited but the alive-lock."""

import ctypes
import os
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

OPEN_FILES = 65536  # each capture of a machine with a disk leaves it one more open overlay
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)

# Children of this worker, so that a dead one is reaped; a machine that was adopted is reaped by init.
_children: dict[int, subprocess.Popen[bytes]] = {}


def spawn(argv: Sequence[str], runtime: Path, lock_fd: int, stderr_fd: int) -> int:
    """Start `argv` in `runtime` holding the lock, and return its process id. Raises OSError if it cannot be started.

    The working directory is the runtime directory, so that socket paths on the command line stay short and relative.
    The caller still owns both descriptors and must close them: the lock lives on in the child.
    """
    _reap_finished()
    child = subprocess.Popen(
        argv, cwd=runtime, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr_fd, close_fds=True,
        pass_fds=(lock_fd,), start_new_session=True,
        preexec_fn=_allow_readers if _readers_need_leave() else None,  # noqa: PLW1509  one system call, and only where it is needed
    )  # fmt: skip
    _children[child.pid] = child
    _limit(child.pid)
    return child.pid


def _limit(pid: int) -> None:
    """Set from here and not between fork and exec. A core file would be the guest's memory in a place that nobody erases."""
    try:
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))
    except ProcessLookupError:
        pass  # it has already died; whoever waits for it will see that


def reap(pid: int, timeout_seconds: float) -> None:
    """Collect a child that was told to end. Does nothing for a process that is not this worker's child."""
    child = _children.pop(pid, None)
    if child is not None:
        try:
            child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            _children[pid] = child


def _reap_finished() -> None:
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            _children.pop(pid, None)


def _readers_need_leave() -> bool:
    """Yama's mode 1 lets only a parent read /proc/PID/mem; a machine's reader after adoption is not its parent. Root always may."""
    if os.geteuid() == 0:
        return False
    try:
        return Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip() == "1"
    except FileNotFoundError:
        return False


def _allow_readers() -> None:
    """Runs between fork and exec; the permission survives the exec. Processes of the same user may then read the guest's memory."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
