"""Reading a known number of bytes from a socket."""

import socket

READ_BYTES = 256 * 1024


class Broken(Exception):
    """The connection ended, or what came is not of the protocol."""


def exactly(sock: socket.socket, count: int) -> bytes:
    """Raises Broken, OSError (TimeoutError by the socket's own timeout)."""
    received = bytearray()
    while len(received) < count:
        data = sock.recv(min(count - len(received), READ_BYTES))
        if not data:
            raise Broken("the connection ended in the middle of a message" if received else "the connection ended")
        received += data
    return bytes(received)
