"""The machines' networks of this host as the gateway finds them: a directory of namespaces, and listeners inside them."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Place:
    """The network of a machine. `made` is another number for a network that was made anew under the same name."""

    session_id: str
    epoch: int
    made: int

    @property
    def name(self) -> str:
        return f"{self.session_id}.{self.epoch}"


class Places(Protocol):
    """What the doorkeeper has of a host; its tests have loopback in place of namespaces."""

    def found(self) -> set[Place]:
        """What is there now. Raises OSError."""

    def listen(self, place: Place, port: int) -> socket.socket:
        """A socket on which that machine alone can connect, and which listens. Raises OSError: it is not made whole yet, or gone."""


def found_in(directory: Path) -> set[Place]:
    """By names `<session>.<epoch>`; whatever else lies there is nobody's. A directory that is not made yet holds none."""
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return set()
    return {place for entry in entries if (place := _of(entry)) is not None}


def _of(entry: os.DirEntry[str]) -> Place | None:
    session_id, _, epoch = entry.name.partition(".")
    if not session_id or not (epoch.isascii() and epoch.isdecimal()):
        return None
    try:
        return Place(session_id, int(epoch), os.stat(entry.path).st_ino)
    except OSError:  # removed a moment ago
        return None
