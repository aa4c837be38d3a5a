"""The gateway's doorbell: whoever makes or removes a machine's network rings it (workers/machine/network/doorbell.py).

A ring says nothing but "look". One that is lost costs a second, for the gateway looks by itself too.
"""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.machine.network.doorbell import SOCKET_NAME


@contextmanager
def hung(directory: Path) -> Iterator[asyncio.Event]:
    """An event that each ring sets. Prerequisites: the host's lock is held, a loop runs. Raises OSError.

    Only processes of this user can ring.
    """
    bell, rung, loop = _bind(directory), asyncio.Event(), asyncio.get_running_loop()

    def hear() -> None:
        _empty(bell)
        rung.set()

    loop.add_reader(bell.fileno(), hear)
    try:
        yield rung
    finally:
        loop.remove_reader(bell.fileno())
        bell.close()


def _bind(directory: Path) -> socket.socket:
    """The path goes through /proc because the kernel takes 107 bytes of one."""
    (directory / SOCKET_NAME).unlink(missing_ok=True)
    held = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        bell.setblocking(False)
        bell.bind(f"/proc/self/fd/{held}/{SOCKET_NAME}")
        (directory / SOCKET_NAME).chmod(0o600)
    except BaseException:
        bell.close()
        raise
    finally:
        os.close(held)
    return bell


def _empty(bell: socket.socket) -> None:
    try:
        while bell.recv(256):
            pass
    except OSError:
        pass
