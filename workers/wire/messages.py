"""A message of a relay's socket: a JSON header and bytes, both bounded. One question and one answer to a connection."""

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

from workers.wire.stream import Broken, exactly

LENGTHS = struct.Struct(">II")
HEADER_BYTES = 64 * 1024
BLOB_BYTES = 2 * 1024 * 1024


def send(sock: socket.socket, header: Mapping[str, Any], blob: bytes = b"") -> None:
    """Raises OSError; ValueError for what is too large to be sent."""
    encoded = json.dumps(dict(header)).encode()
    if len(encoded) > HEADER_BYTES or len(blob) > BLOB_BYTES:
        raise ValueError("too large for the relay's protocol")
    sock.sendall(b"".join((LENGTHS.pack(len(encoded), len(blob)), encoded, blob)))


def receive(sock: socket.socket) -> tuple[dict[str, Any], bytes]:
    """Raises Broken, OSError (TimeoutError by the socket's own timeout)."""
    header_bytes, blob_bytes = LENGTHS.unpack(exactly(sock, LENGTHS.size))
    if header_bytes > HEADER_BYTES or blob_bytes > BLOB_BYTES:
        raise Broken("a message is longer than this protocol allows")
    try:
        header = json.loads(exactly(sock, header_bytes))
    except (ValueError, RecursionError) as error:
        raise Broken("a message is not JSON") from error
    if not isinstance(header, dict):
        raise Broken("a message is not an object")
    return header, exactly(sock, blob_bytes)
