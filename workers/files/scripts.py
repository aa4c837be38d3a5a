"""Run one of our file scripts on a machine. Its answer was written by the guest and is hostile input."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from workers.files.refusal import FileRefused, refusal_of
from workers.machine.script import RunsScripts

#: The workspace: what files are named relative to. Commands start here too.
ROOT = "/root"
#: Bytes of one exchange with the guest. Larger ones are hardly faster, and a save waits for the one that is under way.
PIECE_BYTES = 512 * 1024
SECONDS = 30.0
HASH_SECONDS = 120.0

_FOLDER = Path(__file__).parent / "sh"


@cache
def _text(*names: str) -> str:
    return "".join((_FOLDER / f"{name}.sh").read_text() for name in names)


def run(
    machine: RunsScripts,
    names: Sequence[str],
    path: str,
    arguments: Sequence[str],
    *,
    data: bytes = b"",
    output_limit: int,
    seconds: float = SECONDS,
) -> bytes:
    """What the scripts, one after the other as one program, print about `path` (relative, checked by the caller).

    Raises FileRefused for what the guest refuses, MachineError for a guest that does not answer as it should.
    """
    words = [ROOT, path, *arguments]
    result = machine.script(_text("confine", *names), words, data=data, timeout_seconds=seconds, output_limit=output_limit)
    if result.code != 0:
        raise refusal_of(result.code, result.stderr)
    return result.stdout


def numbers(line: bytes, count: int) -> list[int]:
    """Decimal numbers but for the last, which is hexadecimal. Raises FileRefused unless there are exactly so many sensible ones."""
    words = line.split(b" ")
    try:
        if len(words) != count or not all(0 < len(word) <= 20 for word in words):
            raise ValueError(line)
        found = [*(int(word) for word in words[:-1]), int(words[-1], 16)]
    except ValueError:
        found = [-1]
    if min(found) < 0:
        raise FileRefused("failed", "The machine's account of the file makes no sense.")
    return found
