"""The gateway's doorbell: whoever makes or removes a machine's network rings it (workers/machine/network/doorbell.py).

A ring says nothing but "look". One that is lost costs a second, for the gateway looks by itself too.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.machine.network.doorbell import SOCKET_NAME
from workers.machine.runtime import bind


@contextmanager
def hung(directory: Path) -> Iterator[asyncio.Event]:
    """An event that each ring sets. Prerequisites: the host's lock is held, a loop runs. Raises OSError.

    Only processes of this user can ring.
    """
    bell, rung, loop = bind(directory, SOCKET_NAME, socket.SOCK_DGRAM), asyncio.Event(), asyncio.get_running_loop()
    bell.setblocking(False)

    def hear() -> None:
        _empty(bell)
        rung.set()

    loop.add_reader(bell.fileno(), hear)
    try:
        yield rung
    finally:
        loop.remove_reader(bell.fileno())
        bell.close()


def _empty(bell: socket.socket) -> None:
    try:
        while bell.recv(256):
            pass
    except OSError:
        pass
