"""A host's relay in this process."""

from pathlib import Path

from workers.relay.address import reach


def listens(directory: Path) -> bool:
    """Whether the relay of the host that has this directory takes connections."""
    try:
        reach(directory).close()
    except OSError:
        return False
    return True
