"""Which shared libraries a program needs, read from the ELF file itself (64-bit, little-endian).

The host's `ldd` would answer for the host's libraries, and may run the program.
"""

import struct
from pathlib import Path

from workers.guest.errors import ImageError

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4
DT_NEEDED, DT_STRTAB = 1, 5
LIBRARY_PLACES = ("lib", "lib64", "lib/*-linux-gnu", "usr/lib", "usr/lib64", "usr/lib/*-linux-gnu")


def segments(content: bytes) -> list[tuple[int, int, int, int]]:
    """(type, file offset, address, size in the file) of every program header."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise ImageError("A file that should be a 64-bit ELF program is not one; the package may be damaged. Nothing was published.")
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    headers = [struct.unpack_from("<IIQQQQ", content, table + n * size) for n in range(count)]
    return [(kind, offset, address, in_file) for kind, _, offset, address, _, in_file in headers]


def needed(content: bytes) -> tuple[list[str], str | None]:
    """(names of the libraries it needs, path of its loader) of an ELF program or library."""
    found = segments(content)
    loader = next((content[offset : offset + size].rstrip(b"\0").decode() for kind, offset, _, size in found if kind == PT_INTERP), None)
    dynamic = next((content[offset : offset + size] for kind, offset, _, size in found if kind == PT_DYNAMIC), b"")
    tags = list(struct.iter_unpack("<qQ", dynamic[: len(dynamic) // 16 * 16]))
    strings = next((value for tag, value in tags if tag == DT_STRTAB), 0)
    base = next((offset + strings - at for kind, offset, at, size in found if kind == PT_LOAD and at <= strings < at + size), 0)
    return [text_at(content, base + value) for tag, value in tags if tag == DT_NEEDED], loader


def text_at(content: bytes, offset: int) -> str:
    return content[offset : content.index(b"\0", offset)].decode()


def libraries_of(program: Path, tree: Path) -> dict[str, bytes]:
    """The closure of a program's libraries within a tree of unpacked packages: {path in the guest: content}, the loader included.

    Raises ImageError that names a library which no package brought.
    """
    names, loader = needed(program.read_bytes())
    result = {loader.lstrip("/"): find(tree, Path(loader).name)} if loader else {}
    seen = {Path(loader).name} if loader else set[str]()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            content = result[f"usr/lib/{name}"] = find(tree, name)
            names += needed(content)[0]
    return result


def find(tree: Path, name: str) -> bytes:
    for pattern in LIBRARY_PLACES:
        for path in sorted(tree.glob(f"{pattern}/{name}")):
            if path.is_file() and path.resolve().is_relative_to(tree.resolve()):  # an absolute link would lead to the host's library
                return path.read_bytes()
    raise ImageError(f"The library {name} is in none of the packages that were fetched; the recipe needs another. Nothing was published.")
