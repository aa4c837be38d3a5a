"""The kernel proper out of a compressed kernel image.

QEMU starts an uncompressed kernel directly (PVH entry). An emulated machine is spared the decompression, which costs it more time than
the rest of the kernel's start. The decompressor is also what places a kernel at a random address: a kernel started this way lies at its
fixed address (no KASLR), which changes little where each guest has one owner who is root in it, and lets machines share more pages.

An arm64 kernel has no decompressor; some distributions compress the whole file, which QEMU would undo at every start.
"""

import lzma
import struct
import zlib
from collections.abc import Callable

from workers.guest.elf import PT_NOTE, segments


def _unzstd(data: bytes) -> bytes:
    import zstandard  # not in a Python's own library, which is all that other kernels need

    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


GZIP = b"\x1f\x8b"
DECOMPRESSORS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\xfd7zXZ": lambda data: lzma.LZMADecompressor().decompress(data),
    b"\x28\xb5\x2f\xfd": _unzstd,
    GZIP: lambda data: zlib.decompressobj(wbits=31).decompress(data),
}
PVH_ENTRY_NOTE = 18  # XEN_ELFNOTE_PHYS32_ENTRY


def bootable(image: bytes) -> bytes:
    """The uncompressed kernel if it can be started directly, else the image as it is (lz4, no PVH entry)."""
    if image.startswith(GZIP):
        return DECOMPRESSORS[GZIP](image)
    kernel = payload(image)
    return kernel if kernel is not None and has_pvh_entry(kernel) else image


def payload(image: bytes) -> bytes | None:
    """What a bzImage holds (Linux boot protocol 2.08 and later), if it is compressed in a way that we read."""
    if image[0x202:0x206] != b"HdrS" or struct.unpack_from("<H", image, 0x206)[0] < 0x208:
        return None
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    packed = image[start : start + length]
    for magic, decompress in DECOMPRESSORS.items():
        if packed.startswith(magic):
            return decompress(packed)
    return None


def has_pvh_entry(kernel: bytes) -> bool:
    if kernel[:6] != b"\x7fELF\x02\x01":
        return False
    notes = [kernel[offset : offset + size] for kind, offset, _, size in segments(kernel) if kind == PT_NOTE]
    return any(PVH_ENTRY_NOTE in note_types(note) for note in notes)


def note_types(notes: bytes) -> set[int]:
    """The types of the ELF notes whose owner is Xen."""
    found, place = set[int](), 0
    while place + 12 <= len(notes):
        name_size, data_size, kind = struct.unpack_from("<III", notes, place)
        if notes[place + 12 : place + 12 + name_size] == b"Xen\0":
            found.add(kind)
        place += 12 + -(-name_size // 4) * 4 + -(-data_size // 4) * 4
    return found
