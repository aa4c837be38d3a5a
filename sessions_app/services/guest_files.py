"""Files of a session's machine, as values: what the app that reaches machines gives and takes (`steps.guest_files`)."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Entry:
    """`name` is printable; `exact` is False where it had to be escaped and is therefore no path."""

    name: str
    exact: bool
    type: str  # file, dir, link, other
    size: int
    mode: int  # permission bits
    mtime: int  # seconds since 1970


@dataclass(frozen=True)
class Listing:
    is_dir: bool
    entries: list[Entry]
    total: int  # how many there are, as the guest counts; at least those listed


@dataclass(frozen=True)
class Node:
    """An entry somewhere below a directory; as an `Entry`, but for its `path`, relative to that directory."""

    path: str
    exact: bool
    type: str
    size: int
    mode: int
    mtime: int


@dataclass(frozen=True)
class Tree:
    nodes: list[Node]
    total: int  # how many lie below the directory, as the guest counts


@dataclass(frozen=True)
class Small:
    """A file that was read whole, beside others."""

    mode: int
    mtime: int
    data: bytes


@dataclass(frozen=True)
class Piece:
    """`identity` is equal for two pieces only if nothing that the guest's kernel counts has changed in between (to the second)."""

    size: int  # of the file
    mtime: int
    mode: int
    identity: str
    real_path: str  # where the file lies below the workspace, links resolved; printable
    sha256: str | None  # of the whole file, as the guest computed it, where it was asked for
    data: bytes


@dataclass(frozen=True)
class Target:
    """Where a transfer writes. `directory` and `name` are checked text; `temporary` is a name that no other transfer has."""

    directory: str
    name: str
    temporary: str
    only_new: bool


@dataclass(frozen=True)
class Written:
    size: int
    mtime: int
    mode: int


class GuestFiles(Protocol):
    """The files of one machine. Paths are relative to the workspace, checked by `guest_path.checked`.

    Each call is one short exchange with the guest. All raise ServiceError: ks_path_absent, ks_path_refused, ks_path_exists,
    ks_path_changed, ks_guest_silent, ks_machine_lost, ks_fleet_unavailable.
    """

    root: str
    piece_bytes: int  # the most that `read` and `put` take at once

    def listing(self, path: str, limit: int) -> Listing: ...

    def tree(self, path: str, first: int, limit: int) -> Tree:
        """Of all that lies below a directory, at most `limit` entries from the `first`, in the order of their paths' bytes."""

    def bundle(self, path: str, names: list[str], limit: int) -> list[Small]:
        """These plain files below the directory, whole and in this order; `limit` bounds their bytes. At most a few hundred names."""

    def read(self, path: str, offset: int, count: int, *, hashed: bool = False) -> Piece: ...

    def begin(self, target: Target) -> None: ...

    def put(self, target: Target, offset: int, data: bytes) -> None: ...

    def commit(self, target: Target, size: int, sha256: str, mode: int | None) -> Written: ...

    def abort(self, target: Target) -> None: ...
