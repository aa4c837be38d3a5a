"""Where a host's relay is found."""

import socket
from pathlib import Path

from workers.machine.runtime import bind, connect

SOCKET_NAME = "relay.sock"
LOCK_NAME = "relay.lock"
WAITING = 128
CONNECT_SECONDS = 2.0


def listen(directory: Path) -> socket.socket:
    """Prerequisite: the lock is held, so that what lies there is of a relay that is gone. Raises OSError."""
    listener = bind(directory, SOCKET_NAME, socket.SOCK_STREAM)
    try:
        listener.listen(WAITING)  # nobody connects before this
    except BaseException:
        listener.close()
        raise
    return listener


def reach(directory: Path) -> socket.socket:
    """A connection to the relay. Raises OSError where none serves."""
    return connect(directory, SOCKET_NAME, CONNECT_SECONDS)
