"""Where a host's relay is found."""

import os
import socket
from pathlib import Path

from workers.machine.runtime import connect

SOCKET_NAME = "relay.sock"
LOCK_NAME = "relay.lock"
WAITING = 128
CONNECT_SECONDS = 2.0


def bind(directory: Path) -> socket.socket:
    """A listener only for processes of this user. Prerequisite: the lock is held, so that what lies there is of a relay that is gone.

    The path goes through /proc because the kernel takes 107 bytes of it. Raises OSError.
    """
    (directory / SOCKET_NAME).unlink(missing_ok=True)
    held = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(f"/proc/self/fd/{held}/{SOCKET_NAME}")
        (directory / SOCKET_NAME).chmod(0o600)
        listener.listen(WAITING)  # nobody connects before this
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(held)
    return listener


def reach(directory: Path) -> socket.socket:
    """A connection to the relay. Raises OSError where none serves."""
    return connect(directory, SOCKET_NAME, CONNECT_SECONDS)
