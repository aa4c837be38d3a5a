"""Which shared libraries a program needs, read from the ELF file itself (64-bit, little-endian).

The host's `ldd` would answer for the host's libraries, and may run the program.
"""

import struct
from pathlib import Path

from workers.guest.errors import ImageError

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_STRTAB = 1, 5


def needed(content: bytes) -> tuple[list[str], str | None]:
    """(names of the libraries it needs, path of its loader) of an ELF program or library."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise ImageError("A file that should be a 64-bit ELF program is not one; the package may be damaged. Nothing was published.")
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    segments = [struct.unpack_from("<IIQQQQ", content, table + n * size) for n in range(count)]  # type, flags, offset, vaddr, paddr, filesz
    interpreter = next((content[offset : offset + filesz - 1].decode() for kind, _, offset, _, _, filesz in segments if kind == PT_INTERP), None)
    dynamic = next(((offset, filesz) for kind, _, offset, _, _, filesz in segments if kind == PT_DYNAMIC), None)
    if dynamic is None:
        return [], interpreter
    tags = list(struct.iter_unpack("<qQ", content[dynamic[0] : dynamic[0] + dynamic[1] // 16 * 16]))
    strings = next(value for tag, value in tags if tag == DT_STRTAB)
    base = next(offset + strings - vaddr for kind, _, offset, vaddr, _, filesz in segments if kind == PT_LOAD and vaddr <= strings < vaddr + filesz)
    return [text_at(content, base + value) for tag, value in tags if tag == DT_NEEDED], interpreter


def text_at(content: bytes, offset: int) -> str:
    return content[offset : content.index(b"\0", offset)].decode()


def libraries_of(program: Path, tree: Path) -> dict[str, bytes]:
    """The closure of a program's libraries within a tree of unpacked packages: {path in the guest: content}, the loader included.

    Raises ImageError that names a library which no package brought.
    """
    places = sorted({path for pattern in ("lib", "usr/lib", "lib/*-linux-gnu", "usr/lib/*-linux-gnu", "lib64", "usr/lib64") for path in tree.glob(pattern)})
    result: dict[str, bytes] = {}
    names, loader = needed(program.read_bytes())
    if loader:
        result[loader.lstrip("/")] = find(tree, places, Path(loader).name)
    seen = set[str]()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        content = find(tree, places, name)
        if not loader or name != Path(loader).name:
            result[f"usr/lib/{name}"] = content
        names += needed(content)[0]
    return result


def find(tree: Path, places: list[Path], name: str) -> bytes:
    for place in places:
        path = place / name
        # an absolute link would lead to the host's library
        if path.is_file() and path.resolve().is_relative_to(tree.resolve()):
            return path.read_bytes()
    raise ImageError(f"The library {name} is in none of the packages that were fetched. Nothing was published; the recipe needs another package.")
