"""The initramfs archive (cpio, "newc"), written directly: no device node, owner or root right of the host is involved."""

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workers.guest.errors import ImageError


@dataclass(frozen=True)
class Entry:
    path: str  # relative, without a leading slash
    mode: int  # type and permissions
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(path: str, permissions: int = 0o755) -> Entry:
    return Entry(path, stat.S_IFDIR | permissions)


def file(path: str, content: bytes, permissions: int = 0o644) -> Entry:
    return Entry(path, stat.S_IFREG | permissions, content)


def symlink(path: str, target: str) -> Entry:
    return Entry(path, stat.S_IFLNK | 0o777, target.encode())


def with_parents(entries: Iterable[Entry]) -> list[Entry]:
    """The entries in order of their paths, with every missing directory above them; the same entries always give the same list."""
    by_path: dict[str, Entry] = {}
    for entry in entries:
        for parent in Path(entry.path).parents:
            if str(parent) != ".":
                by_path.setdefault(str(parent), directory(str(parent)))
        if entry.path in by_path and not stat.S_ISDIR(by_path[entry.path].mode):
            raise ImageError(f"Two different files claim {entry.path} in the initramfs. Nothing was published; the recipe is wrong.")
        by_path[entry.path] = entry
    return sorted(by_path.values(), key=lambda entry: Path(entry.path).parts)


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive's bytes: owner 0:0 and time 0 everywhere."""
    parts = [record(number, entry) for number, entry in enumerate(with_parents(entries), start=1)]
    return b"".join([*parts, record(0, Entry("TRAILER!!!", 0))])


def record(number: int, entry: Entry) -> bytes:
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    name = entry.path.encode() + b"\0"
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return padded(header + name) + padded(entry.content)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)
