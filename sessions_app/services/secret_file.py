"""A secret kept in a file that only its owner reads."""

import os
from pathlib import Path


def read(file: Path) -> str | None:
    """The secret, or None if there is none. Raises PermissionError for a file that others can read: it is no secret any more."""
    try:
        mode, text = file.stat().st_mode, file.read_text().strip()
    except FileNotFoundError:
        return None
    if mode & 0o077:
        raise PermissionError(f"{file} can be read by others; remove it (a new secret is drawn then), or chmod 600 it.")
    return text or None


def write(file: Path, secret: str) -> None:
    """Atomic and durable: after a crash the file holds the old secret or the new one, whole."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(secret + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, file)
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
