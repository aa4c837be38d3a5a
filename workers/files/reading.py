"""Bytes of a guest's file, in pieces that are known to be of one and the same state of it."""

import re

from sessions_app.services.guest_files import Piece
from workers.files import scripts
from workers.files.listing import ROW_END, printable
from workers.files.refusal import FileRefused
from workers.machine.script import RunsScripts

PATH_BYTES = 4096
_HASH = re.compile(rb"[0-9a-f]{64}|-")


def read_piece(machine: RunsScripts, path: str, offset: int, count: int, *, hashed: bool = False) -> Piece:
    """Up to `count` bytes from `offset`; none beyond the end. Raises FileRefused, MachineError."""
    output = scripts.run(
        machine,
        ["read"],
        path,
        [str(offset), str(count), "sha256" if hashed else "-"],
        output_limit=count + PATH_BYTES + 256,
        seconds=scripts.HASH_SECONDS if hashed else scripts.SECONDS,
    )
    head, _, rest = output.partition(b"\n")
    digest, _, rest = rest.partition(b"\n")
    real, end, data = rest.partition(ROW_END)
    inode, size, mtime, ctime, mode = scripts.numbers(head, 5)
    expected = max(0, min(count, size - offset))
    if not end or not real or not _HASH.fullmatch(digest) or (digest == b"-") is hashed:
        raise FileRefused("failed", "The machine's account of the file makes no sense.")
    if len(data) != expected:
        raise FileRefused("changed", f"The machine gave {len(data)} bytes of a file where it had promised {expected}.")
    identity = f"{inode}-{size}-{mtime}-{ctime}"
    return Piece(size, mtime, mode & 0o7777, identity, printable(real), digest.decode() if hashed else None, data)
