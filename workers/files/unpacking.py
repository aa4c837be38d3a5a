"""Unpack a tar of the host's making in a guest's workspace: sent in bounded pieces, compared, and unpacked by the guest's own tar."""

import secrets
from collections.abc import Callable, Iterable

from sessions_app.services.guest_files import Target
from workers.files import scripts, writing
from workers.machine.script import RunsScripts

SECONDS = 300.0
NAME = "workspace"  # of which no file is made


def unpack(machine: RunsScripts, parts: Iterable[bytes], size: int, sha256: str, *, between: Callable[[], None]) -> None:
    """`parts` joined are a gzipped tar of `size` bytes. `between` is called before each piece, and may raise.

    Raises FileRefused, MachineError, and what `parts` raises; the guest's workspace is then in no state to be used.
    """
    target = Target("", NAME, writing.TEMPORARY_PREFIX + secrets.token_hex(16), only_new=False)
    writing.begin(machine, target)
    offset = 0
    for part in parts:
        for at in range(0, len(part), scripts.PIECE_BYTES):
            between()
            piece = part[at : at + scripts.PIECE_BYTES]
            writing.put(machine, target, offset, piece)
            offset += len(piece)
    between()
    writing.step(machine, "unpack", target, [str(size), sha256], seconds=SECONDS)
