"""The guest's channel held open: while a machine is saved, and from before a resume until the guest is greeted.

An agent whose host side is closed looks for it ten times a second, asleep in between. One that was saved with an open channel and is
resumed with an
open channel waits for input instead, and answers at once.

While a machine is saved nothing may be on its way between host and guest: a byte, an opening or a closing that QEMU handles after it has
written
the device state changes the guest's memory, which would then not belong to that state.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from workers.machine.driver import MachineError
from workers.machine.qemu.argv import GUEST_CHARDEV, GUEST_SOCKET
from workers.machine.qemu.guest_channel import GuestConnection, NoAnswer, lock_channel
from workers.machine.qemu.monitor import Monitor
from workers.machine.runtime import connect

CONNECT_SECONDS = 1.0
SYNCHRONISE_SECONDS = 0.5  # a guest that is busier than this is saved with its channel closed
SETTLE_SECONDS = 5.0
POLL_SECONDS = 0.001


@dataclass(frozen=True)
class HeldChannel:
    """A connection and the lock that keeps others away; both end with `close`, with the process, or when the object is dropped."""

    lock: BinaryIO
    sock: socket.socket

    def close(self) -> None:
        self.sock.close()
        self.lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_channel(runtime: Path, deadline: float) -> HeldChannel:
    """Wait for the channel's turn and connect. Raises `guest_silent`, `machine_dead`, OSError."""
    lock = lock_channel(runtime, deadline)
    try:
        return HeldChannel(lock, connect(runtime, GUEST_SOCKET, CONNECT_SECONDS))
    except BaseException:
        lock.close()
        raise


def open_before_resume(monitor: Monitor, runtime: Path) -> HeldChannel:
    """Connected as far as QEMU's device is concerned, so that a state saved with an open channel finds it open. Raises as
    `open_channel`, MonitorError.
    """
    channel = open_channel(runtime, time.monotonic() + CONNECT_SECONDS)
    try:
        _wait_until(monitor, connected=True)
    except BaseException:
        channel.close()
        raise
    return channel


@contextmanager
def still(monitor: Monitor, runtime: Path, deadline: float, guest_runs: bool) -> Iterator[GuestConnection | None]:
    """Nothing is on its way to or from the guest, and nobody sends anything, until this is left; but for the caller, on the connection that
    it gets where the guest answers. Raises `guest_silent`, `machine_dead`, `capture_failed`.
    """
    with lock_channel(runtime, deadline):
        sock = _synchronised(runtime) if guest_runs else None
        try:
            _wait_until(monitor, connected=sock is not None)
            yield None if sock is None else GuestConnection(sock)
        finally:
            if sock is not None:
                sock.close()


def _synchronised(runtime: Path) -> socket.socket | None:
    """A connection on which the guest has answered all that it was asked; None, and closed again, for a guest that does not answer now."""
    try:
        sock = connect(runtime, GUEST_SOCKET, CONNECT_SECONDS)
    except OSError:
        return None
    try:
        GuestConnection(sock).synchronise(time.monotonic() + SYNCHRONISE_SECONDS)
    except NoAnswer:
        sock.close()
        return None
    return sock


def _wait_until(monitor: Monitor, connected: bool) -> None:
    """Closing a socket is not yet QEMU's having noticed."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while _is_connected(monitor) is not connected:
        if time.monotonic() > deadline:
            raise MachineError("capture_failed", "The guest's channel did not come to rest; the machine was not stopped.")
        time.sleep(POLL_SECONDS)


def _is_connected(monitor: Monitor) -> bool:
    devices = monitor.call("query-chardev")
    names = [str(device["filename"]) for device in devices if device["label"] == GUEST_CHARDEV] if isinstance(devices, list) else []
    return bool(names) and not names[0].startswith("disconnected:")
