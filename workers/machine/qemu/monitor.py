"""QEMU's monitor (QMP), as blocking calls that are all bounded in time.

A connection is opened for one operation and closed after it: a worker that dies leaves nothing behind, and one that adopts the machine
finds the socket free. QMP's client is asyncio; its loop is private to the connection and runs only inside these calls, so they may be
used from any thread that has no running loop of its own.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from qemu.qmp import ExecuteError, QMPClient, QMPError

from workers.machine.driver import MachineError
from workers.machine.process import alive
from workers.machine.runtime import connect

CALL_SECONDS = 15.0
CLOSE_SECONDS = 1.0
T = TypeVar("T")

logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)  # each failure is raised here; its own log lines are the same, at error level


class MonitorError(Exception):
    """QEMU refused a command. The text is QEMU's."""


class MonitorSilent(Exception):
    """The monitor did not answer in time, or the connection broke: what became of a command that was sent is not known."""


class Monitor:
    """`with Monitor(runtime, OPERATIONS_SOCKET) as monitor:` waits its turn (one client at a time), then talks to that QEMU."""

    def __init__(self, runtime: Path, socket_name: str, timeout_seconds: float = CALL_SECONDS, sock: socket.socket | None = None):
        self._runtime, self._socket_name, self._timeout, self._sock = runtime, socket_name, timeout_seconds, sock
        self._client = QMPClient("keepstate")
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        try:
            sock = self._sock or connect(self._runtime, self._socket_name, self._timeout)
            self._run(self._client.connect(sock), self._timeout)
        except BaseException as error:
            self._loop.close()
            if isinstance(error, OSError):
                raise MonitorSilent(f"The monitor of {self._runtime} cannot be reached: {error}.") from error
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._run(self._client.disconnect(), CLOSE_SECONDS)
        except MonitorSilent:
            pass  # it was broken already: nothing is left to close
        finally:
            self._loop.close()

    def call(self, command: str, arguments: Mapping[str, object] | None = None, timeout_seconds: float | None = None) -> object:
        """The command's return value. Raises MonitorError or MonitorSilent; after MonitorSilent the connection must not be used again."""
        return self._run(self._client.execute(command, arguments), timeout_seconds or self._timeout)

    def send_descriptor(self, name: str, fd: int) -> None:
        """Give QEMU a copy of an open file under a name (`getfd`)."""
        self._client.send_fd_scm(fd)
        self.call("getfd", {"fdname": name})

    def add_descriptor(self, fd: int) -> int:
        """Give QEMU a copy of an open file (`add-fd`), which commands then name `/dev/fdset/<the number returned>`."""
        self._client.send_fd_scm(fd)
        answer = self.call("add-fd")
        if not isinstance(answer, dict):
            raise MonitorError("the monitor's answer to add-fd makes no sense")
        return int(answer["fdset-id"])

    def status(self) -> str:
        answer = self.call("query-status")
        return str(answer["status"]) if isinstance(answer, dict) else "unknown"

    def _run(self, work: Awaitable[T], timeout_seconds: float) -> T:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, timeout_seconds))
        except ExecuteError as error:
            raise MonitorError(str(error)) from error
        except TimeoutError as error:
            raise MonitorSilent(f"The monitor of {self._runtime} did not answer within {timeout_seconds:.0f} s.") from error
        except (QMPError, EOFError, OSError) as error:
            raise MonitorSilent(f"The connection to the monitor of {self._runtime} broke: {error or type(error).__name__}.") from error


def wait_for_monitor(runtime: Path, socket_name: str, deadline: float) -> Monitor:
    """A monitor of a process that is just starting, not yet entered. Raises MonitorSilent if the process ends or the time (monotonic) is
    over.
    """
    while True:
        try:
            return Monitor(runtime, socket_name, sock=connect(runtime, socket_name, 1.0))
        except OSError as error:
            if not alive.is_held(runtime):
                raise MonitorSilent("The process ended while it started.") from error
            if time.monotonic() > deadline:
                raise MonitorSilent("The process did not open its monitor in time.") from error
        time.sleep(0.002)


def as_machine_error(error: Exception, code: str, runtime: Path, what: str) -> MachineError:
    """The contract's error for a monitor's failure: `machine_dead` if the process is gone, else `code`."""
    if not alive.is_held(runtime):
        return MachineError("machine_dead", f"{what}: the machine's process is gone.")
    return MachineError(code, f"{what}: {error}")
