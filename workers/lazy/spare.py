"""A process of this room that has loaded its modules and waits for a role: a resume would wait a third of a second for it to start.

Each process of the vm worker keeps one, and starts the next a while after it was used. It knows nothing until it is used, and ends with
the worker that keeps it; from then on it is what `start` would have started.
"""

import importlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ROLES = {"serve": "workers.lazy.daemon", "assist": "workers.lazy.assist"}
MESSAGE_BYTES, MOST_FDS = 8192, 8
AGAIN_SECONDS = 3.0  # not beside the resume that has just used one


@dataclass(frozen=True)
class Spare:
    """`control` is the other end of the socket that it waits at; it becomes the role's own."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket

    def take_role(self, role: str, arguments: Sequence[str], errors_fd: int, fds: Sequence[int]) -> None:
        """Arguments that are the number of one of `fds` become its number there. Raises OSError if the process is gone."""
        message = json.dumps({"role": role, "arguments": list(arguments), "fds": list(fds)}).encode()
        socket.send_fds(self.control, [message], [errors_fd, *fds])


class Keeper:
    """At most one spare of this process. `make` starts one that loads the modules of these names too, and may raise OSError."""

    def __init__(self, make: Callable[[Sequence[str]], Spare]):
        self._make, self._lock = make, threading.Lock()
        self._modules: Sequence[str] = ()
        self._spare: Spare | None = None
        self._kept_by = 0

    def keep(self, modules: Sequence[str] = ()) -> None:
        """Have one from now on."""
        with self._lock:
            self._kept_by, self._modules = os.getpid(), modules
            if self._spare is None:
                self._spare = self._make(modules)

    def take(self) -> Spare | None:
        """The spare, if there is one and it lives; the next is started a while later. A child of the process that keeps it has none."""
        with self._lock:
            if self._kept_by != os.getpid():
                return None
            spare, self._spare = self._spare, None
        again = threading.Timer(AGAIN_SECONDS, self._again)
        again.daemon = True
        again.start()
        return spare if spare is not None and spare.process.poll() is None else None

    def _again(self) -> None:
        try:
            self.keep(self._modules)
        except OSError:
            return  # without a spare a resume starts its own


def wait_for_role(control_fd: int, modules: Sequence[str]) -> tuple[str, list[str]] | None:
    """In the spare: its role and that role's arguments, the last of which is the control socket. None if whoever kept it is gone."""
    for module in (*ROLES.values(), "workers.lazy.mount", *modules):
        importlib.import_module(module)
    control = socket.socket(fileno=control_fd)
    message, fds, _, _ = socket.recv_fds(control, MESSAGE_BYTES, MOST_FDS)
    if not message:
        return None
    told = json.loads(message)
    errors, *given = fds
    for stream in (1, 2):
        os.dup2(errors, stream)
    os.close(errors)
    names = {str(there): str(here) for there, here in zip(told["fds"], given, strict=True)}
    return str(told["role"]), [*(names.get(argument, argument) for argument in told["arguments"]), str(control.detach())]


def run(role: str, arguments: list[str]) -> None:
    importlib.import_module(ROLES[role]).run(arguments)
    sys.stdout.flush()
