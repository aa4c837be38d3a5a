"""A machine's terminal: the host's end of its virtio console.

QEMU writes what comes from here into the guest's memory as soon as the guest has room. So while a machine is saved nothing may be on its
way (`terminal_still`, as with the agent's channel): whoever types takes a lock for a few bytes and keeps it until QEMU has read them.
Opening, closing and reading need no lock: QEMU tells a guest nothing of who is connected to a console, and drops what nobody reads.
"""

import fcntl
import os
import socket
import struct
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.machine.driver import MachineError
from workers.machine.process import alive
from workers.machine.qemu.argv import TERMINAL_SOCKET
from workers.machine.qemu.monitor import Monitor
from workers.machine.runtime import connect

LOCK_NAME = "terminal.lock"
BURST_BYTES = 1024
CONNECT_SECONDS = 2.0
TAKEN_SECONDS = 1.0  # a guest that does not take a burst within this loses it
TURN_SECONDS = 60.0  # for which a save may keep typing waiting
POLL_SECONDS = 0.0005
LOCK_POLL_SECONDS = 0.002
GAP_SECONDS = 0.004  # between two bursts, for a save that waits
READ_BYTES = 32 * 1024


class TerminalLine:
    """A connection to the terminal, of which QEMU serves one at a time. `read` and `type` may run in two threads."""

    def __init__(self, runtime: Path):
        """Raises MachineError: `machine_dead`."""
        self._runtime = runtime
        self._closed = threading.Event()
        self._sock = self._connected()

    def read(self) -> bytes:
        """What the guest printed since; waits for it. Empty: the machine has ended, or `close` was called."""
        while True:
            sock = self._sock
            try:
                data = sock.recv(READ_BYTES)
            except OSError:
                data = b""
            if data or self._closed.is_set() or sock is self._sock:
                return data  # an end of a connection that `type` has replaced is none

    def type(self, data: bytes) -> int:
        """Give the guest input and return how much of it was dropped, because the guest did not take it. Raises MachineError."""
        for start in range(0, len(data), BURST_BYTES):
            if start:
                time.sleep(GAP_SECONDS)
            if not self._burst(data[start : start + BURST_BYTES]):
                return len(data) - start
        return 0

    def close(self) -> None:
        self._closed.set()
        _shut(self._sock)

    def _burst(self, data: bytes) -> bool:
        """On return nothing is on its way any more, delivered or dropped."""
        with _locked(self._runtime, time.monotonic() + TURN_SECONDS):
            try:
                self._sock.sendall(data)
                if _taken(self._sock):
                    return True
                old, self._sock = self._sock, self._connected()
            except OSError as error:
                raise MachineError("machine_dead", "The machine's terminal is closed.") from error
            _shut(old)
            return False

    def _connected(self) -> socket.socket:
        try:
            sock = connect(self._runtime, TERMINAL_SOCKET, CONNECT_SECONDS)
        except OSError as error:
            code, what = ("exec_failed", "has no terminal") if alive.is_held(self._runtime) else ("machine_dead", "is gone")
            raise MachineError(code, f"The machine {what}: {error}.") from error
        sock.settimeout(None)
        return sock


@contextmanager
def terminal_still(monitor: Monitor, runtime: Path, deadline: float) -> Iterator[None]:
    """Nobody types until this is left, and what was typed is in the guest. Raises `guest_silent`, MonitorError, MonitorSilent.

    The question goes through QEMU's main loop: what could be read from the terminal's socket before it has been read after it, also
    where a relay was killed in the middle of a burst.
    """
    with _locked(runtime, deadline):
        monitor.status()
        yield


def _taken(sock: socket.socket) -> bool:
    """Whether QEMU has read all that was sent; it reads no more than the guest has room for."""
    deadline = time.monotonic() + TAKEN_SECONDS
    while struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0\0\0\0"))[0]:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


@contextmanager
def _locked(runtime: Path, deadline: float) -> Iterator[None]:
    try:
        handle = os.open(runtime / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MachineError("machine_dead", f"There is no machine in {runtime}.") from error
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise MachineError("guest_silent", "The machine's terminal was busy all the time; nothing was done.") from None
                time.sleep(LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def _shut(sock: socket.socket) -> None:
    """Also for a thread that reads from it."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was never connected to anybody, or is no longer
    sock.close()
