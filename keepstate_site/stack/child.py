"""One supervised process: how it is started, how its output is kept, how it ends with its supervisor."""

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from keepstate_site.stack.home import User
from keepstate_site.stack.output import Log

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Spec:
    """What to run. `ready` is polled until it is true or `ready_seconds` have passed."""

    name: str
    argv: Sequence[str]
    ready: Callable[[], bool]
    env: Mapping[str, str]
    cwd: Path
    before: Callable[[], None] = lambda: None  # run before each start
    user: User | None = None
    ready_seconds: float = 60
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 15
    death_signal: signal.Signals = signal.SIGKILL  # what the kernel sends if the supervisor dies
    final_codes: frozenset[int] = frozenset()  # it has ended with one of these: starting it again helps nothing
    inherits: tuple[socket.socket, ...] = ()  # kept open here: a process that starts again finds them under the same numbers


@dataclass
class Child:
    spec: Spec
    log: Log
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    restart_at: float | None = None
    delay: float = 0.0
    over: bool = False  # it has ended for good

    def start(self) -> None:
        """Must be called from the main thread: the kernel's death signal follows the thread that started the process."""
        self.spec.before()
        user = self.spec.user
        self.process = subprocess.Popen(
            list(self.spec.argv),
            env=dict(self.spec.env),
            cwd=self.spec.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the supervisor alone, and stragglers can be ended as a group
            pass_fds=[one.fileno() for one in self.spec.inherits],
            preexec_fn=die_with_parent(self.spec.death_signal),  # noqa: PLW1509  the supervisor has one thread
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
        )
        self.started = time.monotonic()
        self.restart_at = None
        os.set_blocking(self.output.fileno(), False)

    @property
    def output(self) -> IO[bytes]:
        if self.process is None or self.process.stdout is None:
            raise RuntimeError("only a started child has an output")
        return self.process.stdout

    @property
    def alive(self) -> bool:
        """Without reaping: until `collect`, a dead process keeps its id, so that no signal can reach a stranger."""
        if self.process is None or self.process.returncode is not None:
            return False
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def pump(self, output: IO[bytes]) -> bool:
        """Move what it has printed to its log, at most one buffer. False once the output is closed."""
        try:
            chunk = os.read(output.fileno(), 65536)
        except BlockingIOError:
            return True
        self.log.write(chunk)
        return bool(chunk)

    def send(self, number: signal.Signals) -> None:
        if self.alive and self.process:
            os.kill(self.process.pid, number)

    def collect(self) -> int | None:
        """SIGKILL what is left of its session and reap it: the exit code. A machine's QEMU has a session of its own and is not reached."""
        if self.process is None:
            return None
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=10)
        return self.process.returncode


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """A preexec function. It runs after the change of user, which would clear the setting; an exec keeps it, a fork drops it."""
    parent = os.getpid()

    def set_death_signal() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the setting took effect
            os._exit(1)

    return set_death_signal
