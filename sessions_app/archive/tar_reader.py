"""Entries of a tar: ustar, GNU and pax, of plain files and directories alone."""

from collections.abc import Iterator
from dataclasses import dataclass

from sessions_app.archive.member import Member
from sessions_app.archive.refusal import ArchiveRefused
from sessions_app.archive.source import Source

BLOCK = 512
#: Bytes of a long name or of a pax header; names have their own bound.
EXTRA_BYTES = 64 * 1024
_END = bytes(BLOCK)
_FILE, _OLD_FILE, _CONTIGUOUS, _DIRECTORY = b"0", b"\0", b"7", b"5"
_PAX, _PAX_ALL, _LONG_NAME, _LONG_LINK = b"x", b"g", b"L", b"K"
_REFUSED = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a FIFO", b"S": "a sparse file",
    b"M": "a part of a file", b"D": "a directory of an incremental dump", b"V": "a volume name", _LONG_LINK: "a link",
}  # fmt: skip


@dataclass
class _Said:
    """What extra headers say of the entry that follows them."""

    name: bytes | None = None
    size: int | None = None


def members(source: Source) -> Iterator[Member]:
    """Raises ArchiveRefused. What follows the end mark must be zeros, or another program would read another archive."""
    said = _Said()
    while (header := source.take(BLOCK)) != _END:
        _require_checksum(header)
        kind, size = header[156:157], _number(header[124:136])
        if kind in (_PAX, _PAX_ALL, _LONG_NAME):
            _hear(said, kind, _extra(source, size))
            continue
        name = _name(header) if said.name is None else said.name
        if kind not in (_FILE, _OLD_FILE, _CONTIGUOUS, _DIRECTORY):
            raise ArchiveRefused(f"The archive holds {_REFUSED.get(kind, 'an entry of an unknown kind')}.", name=name)
        is_dir = kind == _DIRECTORY or name.endswith(b"/")
        size = size if said.size is None else said.size
        if is_dir and size:
            raise ArchiveRefused("A directory of the archive has content.", name=name)
        yield from _member(source, name, is_dir, bool(_number(header[100:108]) & 0o100), size)
        said = _Said()
    if said != _Said():
        raise ArchiveRefused("The archive ends with a header that no entry follows.")
    if any(piece.strip(b"\0") for piece in source.rest()):
        raise ArchiveRefused("Something follows the end of the archive.")


def _member(source: Source, name: bytes, is_dir: bool, executable: bool, size: int) -> Iterator[Member]:
    content = source.stream(size)
    yield Member(name, is_dir, executable, size, content)
    for _ in content:  # what nobody read
        pass
    source.take(-size % BLOCK)


def _require_checksum(header: bytes) -> None:
    blank, told = header[:148] + b" " * 8 + header[156:], _number(header[148:156])
    if told != sum(blank) and told != sum(byte - 256 if byte > 127 else byte for byte in blank):  # old programs added signed bytes
        raise ArchiveRefused("The archive is not a tar, or was damaged.")


def _name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""  # GNU keeps times there
    return prefix + b"/" + name if prefix else name


def _number(raw: bytes) -> int:
    """Octal digits, or GNU's binary form for what does not fit."""
    if raw[0] == 0x80:
        return int.from_bytes(raw[1:], "big")
    text = raw.strip(b" \0")
    if not all(byte in b"01234567" for byte in text):
        raise ArchiveRefused("The archive is not a tar, or was damaged: a number in it is none.")
    return int(text, 8) if text else 0


def _extra(source: Source, size: int) -> bytes:
    if size > EXTRA_BYTES:
        raise ArchiveRefused(f"A header in the archive is longer than {EXTRA_BYTES} bytes.")
    data = source.take(size)
    source.take(-size % BLOCK)
    return data


def _hear(said: _Said, kind: bytes, data: bytes) -> None:
    if kind == _LONG_NAME:
        said.name = data.rstrip(b"\0")
        return
    for key, value in _records(data):
        if key.startswith("GNU.sparse"):
            raise ArchiveRefused("The archive holds a sparse file.")
        if kind == _PAX_ALL and key in ("path", "size"):
            raise ArchiveRefused("A header for all entries of the archive gives them one name or size.")
        if key == "path":
            said.name = value
        elif key == "size":
            said.size = _decimal(value)


def _records(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Records of a pax header: `LENGTH KEY=VALUE` and a newline, where the length counts all of it."""
    while data:
        digits, blank, _ = data.partition(b" ")
        length = _decimal(digits)
        record = data[:length]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not blank or not equals or len(record) != length or length <= len(digits) + 2 or not record.endswith(b"\n"):
            raise ArchiveRefused("A header in the archive makes no sense.")
        yield key.decode(errors="replace"), value
        data = data[length:]


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 15:
        raise ArchiveRefused("A header in the archive makes no sense.")
    return int(text)
