"""How an image gets its name in the host cache, for the worker and for the process that serves a lazy image."""

import json
import os
from pathlib import Path

from workers.cache.digest import image_digest

SUM = ".sum"


def join_at(path: Path, made: Path) -> None:
    """`made` becomes `path`, with its digest beside it. Raises OSError."""
    digest = image_digest(made)
    name_at(path, made)
    sum_at(path, digest)


def name_at(path: Path, made: Path) -> None:
    """`made` becomes `path`, without a sum: nobody who looks it up believes it yet. Raises OSError."""
    path.with_name(path.name + SUM).unlink(missing_ok=True)
    os.chmod(made, 0o600)
    os.replace(made, path)


def sum_at(path: Path, digest: str) -> None:
    """The sum comes last, so an image whose maker died half-way is never believed. Raises OSError."""
    note = path.with_name(f"{path.name}{SUM}.tmp")
    note.write_text(json.dumps({"digest": digest}))
    os.replace(note, path.with_name(path.name + SUM))
