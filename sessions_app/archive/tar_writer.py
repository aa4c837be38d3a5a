"""A tar of our own making: GNU long names, no owner but root, no mode but 644 and 755."""

from collections.abc import Iterable, Iterator

BLOCK = 512
END = bytes(2 * BLOCK)
FILE_MODE, PROGRAM_MODE, DIRECTORY_MODE = 0o644, 0o755, 0o755
_NAME_BYTES = 100
_FILE, _DIRECTORY, _LONG_NAME = b"0", b"5", b"L"


def directory(path: str, mtime: int) -> bytes:
    return _header(path.encode() + b"/", _DIRECTORY, DIRECTORY_MODE, 0, mtime)


def file(path: str, executable: bool, size: int, mtime: int, content: Iterable[bytes]) -> Iterator[bytes]:
    """Prerequisite: `content` gives exactly `size` bytes, or raises."""
    yield _header(path.encode(), _FILE, PROGRAM_MODE if executable else FILE_MODE, size, mtime)
    yield from content
    if padding := -size % BLOCK:
        yield bytes(padding)


def _header(name: bytes, kind: bytes, mode: int, size: int, mtime: int) -> bytes:
    if len(name) <= _NAME_BYTES:
        return _block(name, kind, mode, size, mtime)
    long = name + b"\0"
    said_before = _block(b"././@LongLink", _LONG_NAME, 0, len(long), 0) + long + bytes(-len(long) % BLOCK)
    return said_before + _block(name[:_NAME_BYTES], kind, mode, size, mtime)


def _block(name: bytes, kind: bytes, mode: int, size: int, mtime: int) -> bytes:
    before = b"".join((name.ljust(100, b"\0"), b"%07o\0" % mode, b"%07o\0" % 0, b"%07o\0" % 0, b"%011o\0" % size, b"%011o\0" % mtime))
    after = b"".join((kind, bytes(100), b"ustar  \0", b"root".ljust(32, b"\0"), b"root".ljust(32, b"\0"))).ljust(BLOCK - 156, b"\0")
    return before + b"%06o\0 " % (sum(before) + sum(after) + 8 * ord(" ")) + after
