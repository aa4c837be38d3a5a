"""Start a hypervisor so that it outlives the worker: own session, nothing of ours inherited but what it is given; within limits, and where
the worker may, as a user of its own that sees its own files only.
"""

import ctypes
import os
import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workers.machine.process.isolation import within
from workers.machine.process.mounts import View

OPEN_FILES = 65536  # each capture of a machine with a disk leaves it one more open overlay, until they are flattened
SHELL = Path("/bin/sh")
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)

# Children of this worker, so that a dead one is reaped; a machine that was adopted is reaped by init.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Confined:
    """A user and a root of its own. `view` holds all that the program opens by name, the program and its libraries too."""

    uid: int
    groups: tuple[int, ...]
    view: View
    mount_point: Path


@dataclass(frozen=True)
class Terms:
    """Under which a process is started. `file_bytes`: no file that it writes grows beyond it; it then sees an error, and no signal."""

    file_bytes: int | None = None
    inherits: tuple[int, ...] = ()  # descriptors, beside the lock
    confined: Confined | None = field(default=None)


PLAIN = Terms()


def spawn(argv: Sequence[str], runtime: Path, lock_fd: int, stderr_fd: int, terms: Terms = PLAIN) -> int:
    """Start `argv` in `runtime` holding the lock, and return its process id. Raises OSError if it cannot be started.

    The working directory is the runtime directory, so that socket paths on the command line stay short and relative.
    The caller still owns all descriptors and must close them: the lock lives on in the child.
    """
    _reap_finished()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        child = _start([*_limited(terms.file_bytes), *argv], runtime, (lock_fd, *terms.inherits), null, stderr_fd, terms.confined)
    finally:
        os.close(null)
    _children[child.pid] = child
    return child.pid


def _start(
    argv: Sequence[str], runtime: Path, inherits: Sequence[int], null: int, stderr_fd: int, confined: Confined | None
) -> "subprocess.Popen[bytes]":
    def popen(**who: Any) -> "subprocess.Popen[bytes]":
        # Python ignores SIGXFSZ, and so does its child: a write beyond the file limit is an error of that write alone.
        return subprocess.Popen(
            argv, cwd=runtime, stdin=null, stdout=null, stderr=stderr_fd, close_fds=True, pass_fds=inherits, start_new_session=True,
            restore_signals=False, **who,
        )  # fmt: skip

    if confined is None:
        return popen(preexec_fn=_allow_readers if _readers_need_leave() else None)  # one system call, and only where it is needed
    return within(
        confined.view,
        confined.mount_point,
        lambda: popen(user=confined.uid, group=confined.uid, extra_groups=list(confined.groups), umask=0o077),
    )


def _limited(file_bytes: int | None) -> list[str]:
    """A shell that sets the limits on itself and becomes the program: the worker may not set those of another user's process.

    A core file would be the guest's memory in a place that nobody erases.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    size = "" if file_bytes is None else f"ulimit -f {-(-file_bytes // 512)}; "
    script = f'set -e; ulimit -c 0; ulimit -S -n {files}; {size}exec "$@"'
    return [str(SHELL.resolve()), "-c", script, "keepstate"]


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
