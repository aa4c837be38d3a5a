"""The listening sockets and named pipes of a machine: made here, so that QEMU need not be able to make names in its directory.

Sockets are inherited; pipes are found by name. Who connects before QEMU has come so far waits in the socket's queue.
"""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from workers.machine.qemu import fifo

_LISTENING = re.compile(r"(?<=,)path=([a-z.-]+)(?=,server=on)")
_PIPE = re.compile(r"pipe,.*path=([a-z.-]+)")
WAITING = 8  # connections that QEMU has not taken yet


@contextmanager
def passed(argv: Sequence[str], runtime: Path) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """The command line with each `path=NAME,server=on` replaced by an open socket, and the sockets, which the caller's process has until
    this is left. Raises OSError.
    """
    with ExitStack() as stack:
        made: list[int] = []

        def listen(found: "re.Match[str]") -> str:
            sock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            _bind(sock, runtime, found[1])
            made.append(sock.fileno())
            return f"fd={sock.fileno()}"

        for word in argv:
            if found := _PIPE.fullmatch(word):
                fifo.make(runtime, found[1])
        words = [_LISTENING.sub(listen, word) if word.startswith("socket,") else word for word in argv]
        yield words, tuple(made)


def _bind(sock: socket.socket, runtime: Path, name: str) -> None:
    """However long the directory's path is: the kernel takes 107 bytes."""
    directory = os.open(runtime, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sock.bind(f"/proc/self/fd/{directory}/{name}")
        sock.listen(WAITING)
    finally:
        os.close(directory)
