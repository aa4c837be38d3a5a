"""A machine's terminal: the host's end of its virtio console, two FIFOs in the machine's directory.

QEMU writes what comes from here into the guest's memory as soon as the guest has room. So while a machine is saved nothing may be on its
way (`terminal_still`, as with the agent's channel): whoever types takes a lock for a few bytes and keeps it until QEMU has read them.
Opening, closing and reading need no lock: QEMU tells a guest nothing of who is connected to a console, and drops what has no room.
"""

import fcntl
import os
import select
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.machine.driver import MachineError
from workers.machine.process import alive
from workers.machine.qemu import fifo
from workers.machine.qemu.argv import TERMINAL_PIPE
from workers.machine.qemu.monitor import Monitor

LOCK_NAME = "terminal.lock"
BURST_BYTES = 1024
TAKEN_SECONDS = 1.0  # a guest that does not take a burst within this loses it
TURN_SECONDS = 60.0  # for which a save may keep typing waiting
POLL_SECONDS = 0.0005
LOCK_POLL_SECONDS = 0.002
GAP_SECONDS = 0.004  # between two bursts, for a save that waits
#: A guest's kernel prints at most 16 bytes at a time, and each would wake a reader, who then takes the processor from the guest.
GATHER_SECONDS = 0.005
#: What the guest may print until it is read. Linux gives a FIFO no more without asking for privileges.
ROOM_BYTES = 1024 * 1024


class TerminalLine:
    """The terminal, for one reader. `read` and `type` may run in two threads.

    The FIFOs are closed when nobody holds this any more, and not before: another thread may be in the middle of a call.
    """

    def __init__(self, runtime: Path):
        """Raises MachineError: `machine_dead`, `exec_failed`."""
        self._runtime = runtime
        self._closed = threading.Event()
        self._lost = False
        fds: list[int] = []
        weakref.finalize(self, _close_all, fds)
        try:
            fds.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
            fds.append(fifo.opened(runtime, f"{TERMINAL_PIPE}.out", os.O_RDONLY))
            fds.append(fifo.opened(runtime, f"{TERMINAL_PIPE}.in", os.O_WRONLY))
            self._room = fifo.widened(fds[1], ROOM_BYTES)
        except OSError as error:
            code, what = ("exec_failed", "has no terminal") if alive.is_held(runtime) else ("machine_dead", "is gone")
            raise MachineError(code, f"The machine {what}: {error}.") from error
        self._wake, self._output, self._input = fds

    def read(self) -> bytes:
        """What the guest printed since; waits for it. Empty: the machine has ended, or `close` was called."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        poll.poll()
        if self._closed.wait(GATHER_SECONDS):
            return b""
        if fifo.is_full(self._output, self._room):
            self._lost = True
        return os.read(self._output, self._room)

    def lost(self) -> bool:
        """Whether there was no room for what the guest printed, since this was asked last. For the thread that reads."""
        lost, self._lost = self._lost, False
        return lost

    def type(self, data: bytes) -> int:
        """Give the guest input and return how much of it was dropped, because the guest did not take it. Raises MachineError."""
        for start in range(0, len(data), BURST_BYTES):
            if start:
                time.sleep(GAP_SECONDS)
            burst = data[start : start + BURST_BYTES]
            dropped = self._burst(burst)
            if dropped:
                return dropped + len(data) - start - len(burst)
        return 0

    def close(self) -> None:
        self._closed.set()
        os.eventfd_write(self._wake, 1)

    def _burst(self, data: bytes) -> int:
        """On return nothing is on its way any more, delivered or dropped."""
        with _locked(self._runtime, time.monotonic() + TURN_SECONDS):
            if self._closed.is_set():
                raise MachineError("machine_dead", "The machine's terminal is closed.")
            try:
                os.write(self._input, data)
                if self._taken():
                    return 0
                return min(len(data), fifo.emptied(self._runtime, f"{TERMINAL_PIPE}.in"))
            except OSError as error:
                raise MachineError("machine_dead", "The machine's terminal is closed.") from error

    def _taken(self) -> bool:
        """Whether QEMU has read all that was sent; it reads no more than the guest has room for."""
        deadline = time.monotonic() + TAKEN_SECONDS
        while fifo.pending(self._input):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


@contextmanager
def terminal_still(monitor: Monitor, runtime: Path, deadline: float) -> Iterator[None]:
    """Nobody types until this is left, and what was typed is in the guest. Raises `guest_silent`, MonitorError, MonitorSilent.

    The question goes through QEMU's main loop: what could be read from the terminal's FIFO before has been read after it, also where a
    relay was killed in the middle of a burst.
    """
    with _locked(runtime, deadline):
        monitor.status()
        yield


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


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
