"""A host's relay in this process, and who comes to its door only to be silent."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from workers.relay.address import reach


def listens(directory: Path) -> bool:
    """Whether the relay of the host that has this directory takes connections."""
    try:
        reach(directory).close()
    except OSError:
        return False
    return True


Act = Callable[[], socket.socket]


@contextmanager
def silent(
    address: tuple[str, int], count: int, source: str = "", there: Callable[[Act], socket.socket] = lambda act: act()
) -> Iterator[list[socket.socket]]:
    """So many connections that say nothing, from an address of this computer, or made by `there`."""
    with ExitStack() as opened:
        yield [opened.enter_context(there(lambda: socket.create_connection(address, 10, (source, 0)))) for _ in range(count)]


def sent_away(connections: list[socket.socket]) -> int:
    """How many of them the other end has closed."""
    return sum(_is_closed(one) for one in connections)


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
