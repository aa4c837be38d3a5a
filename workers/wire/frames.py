"""What a terminal's connection carries after its answer: frames, each a kind, a length and bytes."""

import socket
import struct

from workers.wire.stream import Broken, exactly

FRAME = struct.Struct(">cI")
FRAME_BYTES = 64 * 1024
#: To the machine: input, and a size as two numbers. From it: output, a notice and the end, both JSON.
INPUT, SIZE, OUTPUT, NOTICE, END = b"i", b"s", b"o", b"n", b"e"
SIZES = struct.Struct(">HH")  # columns, rows


def frame(kind: bytes, data: bytes) -> bytes:
    return FRAME.pack(kind, len(data)) + data


def receive_frame(sock: socket.socket) -> tuple[bytes, bytes]:
    """Raises Broken, OSError."""
    kind, length = FRAME.unpack(exactly(sock, FRAME.size))
    if length > FRAME_BYTES:
        raise Broken("a frame is longer than this protocol allows")
    return kind, exactly(sock, length)
