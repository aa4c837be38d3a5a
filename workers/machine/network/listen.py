"""Listening inside a machine's network: who connects there can only be that machine."""

import os
import socket
from pathlib import Path

from workers.machine.process import libc
from workers.machine.process.threads import apart

BACKLOG = 128


def listen_inside(namespace: Path, address: str, port: int) -> socket.socket:
    """A listening TCP socket that belongs to the namespace, whatever the process that has it; blocking, not inheritable.

    Needs CAP_SYS_ADMIN. Raises OSError: the file is gone, or nothing is mounted on it (EINVAL), or somebody listens there already.
    """
    fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return apart(lambda: _listen(fd, address, port))
    finally:
        os.close(fd)


def _listen(fd: int, address: str, port: int) -> socket.socket:
    libc.setns(fd, libc.CLONE_NEWNET)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
