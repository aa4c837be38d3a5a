"""What a process has open. Its other threads open and close as they like: what is gone when it is looked at is not open."""

import os
from contextlib import suppress
from pathlib import Path


def open_files(pid: int) -> list[str]:
    """The name behind each of its descriptors."""
    names = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            names.append(os.readlink(entry))
    return names


def open_below(directory: Path) -> list[str]:
    """Those of this process that lie in the directory: its own threads may open others at any time."""
    return [name for name in open_files(os.getpid()) if name.startswith(f"{directory.resolve()}/")]
