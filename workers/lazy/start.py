"""Start a process of this room from a worker: the plan goes through a file in memory, "go" and the answers through a socket.

Its command line names a directory and descriptors, its environment holds nothing of the worker's: no key or credential is in either.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.lazy.plan import Plan, secret_file, send
from workers.lazy.spare import Keeper, Spare

PROGRAM = "workers.lazy"
_PROJECT = Path(__file__).resolve().parents[2]
_ENVIRONMENT = {"PATH": os.defpath, "FUSE_LIBRARY_PATH": "libfuse3.so.3", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}

# Children of this worker, so that those which end while it lives are reaped; the others go to init.
_children: list[subprocess.Popen[bytes]] = []


@dataclass
class Started:
    """A process that waits for its plan. Give it one with `go`, or close it: then it ends without having done anything."""

    process: "subprocess.Popen[bytes]"
    plan_fd: int
    control: socket.socket

    def go(self, plan: Plan) -> None:
        """Raises OSError if the process is gone, or where there is no memory for the plan."""
        send(plan, self.plan_fd)
        self.control.sendall(b"g")
        os.close(self.plan_fd)
        self.plan_fd = -1

    def close(self) -> None:
        if self.plan_fd >= 0:
            os.close(self.plan_fd)
            self.plan_fd = -1
        self.control.close()


def start(role: str, arguments: Sequence[str], *, log: Path, pass_fds: Sequence[int] = ()) -> Started:
    """The spare takes the role where there is one. Raises OSError. What it says about errors goes to `log`, which is begun anew."""
    plan_fd = secret_file()
    words, fds = [*arguments, str(plan_fd)], [plan_fd, *pass_fds]
    try:
        with open(log, "wb") as errors:
            process, control = _by_spare(role, words, errors.fileno(), fds) or _spawned(role, words, errors.fileno(), fds)
    except BaseException:
        os.close(plan_fd)
        raise
    return Started(process, plan_fd, control)


def _by_spare(role: str, words: Sequence[str], errors: int, fds: Sequence[int]) -> "tuple[subprocess.Popen[bytes], socket.socket] | None":
    spare = spares.take()
    if spare is None:
        return None
    try:
        spare.take_role(role, words, errors, fds)
    except OSError:
        spare.control.close()
        return None
    return spare.process, spare.control


def _spawned(role: str, words: Sequence[str], errors: int, fds: Sequence[int]) -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """The control socket's number is the last word."""
    _reap()
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, role, *words, str(theirs.fileno())], cwd=_PROJECT, env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, close_fds=True, pass_fds=(*fds, theirs.fileno()),
                start_new_session=True,
            )  # fmt: skip
    except BaseException:
        ours.close()
        raise
    _children.append(process)
    return process, ours


def _make_spare(modules: Sequence[str]) -> Spare:
    with open(os.devnull, "wb") as nowhere:
        return Spare(*_spawned("spare", modules, nowhere.fileno(), []))


#: The one that this process keeps once it has been told to.
spares = Keeper(_make_spare)


def _reap() -> None:
    _children[:] = [child for child in _children if child.poll() is None]
