"""How an image gets its name in the host cache, for the worker and for the process that serves a lazy image."""

import json
import os
import secrets
from pathlib import Path

from workers.cache.image_sum import KEY_BYTES, image_sum

SUM = ".sum"


def join_at(path: Path, made: Path) -> None:
    """`made` becomes `path`, with its sum beside it. Raises OSError."""
    note = sum_of(made)
    name_at(path, made)
    sum_at(path, note)


def name_at(path: Path, made: Path) -> None:
    """`made` becomes `path`, without a sum: nobody who looks it up believes it yet. Raises OSError."""
    path.with_name(path.name + SUM).unlink(missing_ok=True)
    os.chmod(made, 0o600)
    os.replace(made, path)


def sum_of(made: Path) -> str:
    """What stands beside an image: a key of its own and its sum. Raises OSError."""
    key = secrets.token_bytes(KEY_BYTES)
    return json.dumps({"key": key.hex(), "sum": image_sum(made, key)})


def sum_at(path: Path, note: str) -> None:
    """The sum comes last, so an image whose maker died half-way is never believed. Raises OSError."""
    new = path.with_name(f"{path.name}{SUM}.tmp")
    new.touch(mode=0o600)
    new.write_text(note)
    os.replace(new, path.with_name(path.name + SUM))


def is_what_was_summed(path: Path) -> bool:
    """Raises OSError, ValueError, KeyError, TypeError for an image that has no sum to be compared with, or that cannot be read."""
    note = json.loads(path.with_name(path.name + SUM).read_text())
    return image_sum(path, bytes.fromhex(note["key"])) == str(note["sum"])
