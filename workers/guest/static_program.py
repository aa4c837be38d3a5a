"""Static programs of a few hundred bytes, out of listings: no compiler is needed where an image is built."""

import struct
from collections.abc import Mapping

from workers.guest.errors import ImageError

LOADED_AT = 0x400000
HEADER_BYTES = 64 + 56
MACHINES = {"x86_64": 62, "aarch64": 183}


def program(name: str, architecture: str, listings: Mapping[str, str], data: bytes) -> bytes:
    """An ELF file of one segment: the listing's instructions, then `data`. Raises ImageError for an architecture without a listing."""
    if architecture not in listings:
        raise ImageError(f"The guest's {name} program was not written for {architecture}. Nothing was published.")
    content = code(listings[architecture]) + data
    length = HEADER_BYTES + len(content)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 2, MACHINES[architecture], 1, LOADED_AT + HEADER_BYTES, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    readable_and_executable = 5
    segment = struct.pack("<IIQQQQQQ", 1, readable_and_executable, 0, LOADED_AT, LOADED_AT, length, length, 0x10000)
    return header + segment + content


def code(listing: str) -> bytes:
    """The bytes of a listing's lines; a line that begins with a space is a label."""
    return b"".join(bytes.fromhex(line.split()[0]) for line in listing.splitlines() if line and not line.startswith(" "))
