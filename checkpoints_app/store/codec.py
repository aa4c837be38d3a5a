"""zstd with every output bounded before it is allocated, and one (de)compressor per thread (they are not thread-safe).

The forms for many pieces do all of them without the interpreter's lock: between two frames a thread would have to wait for it.
"""

import struct
import threading
from collections.abc import Sequence

import zstandard

LEVEL = 1  # guest memory: higher levels cost more time than their bytes are worth on the way to a save


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=LEVEL, write_content_size=True, write_checksum=False)
        self.decompressor = zstandard.ZstdDecompressor()


_local = _PerThread()


class CodecError(Exception):
    """The bytes are not one zstd frame of the size that was announced."""


def compress(plain: bytes | memoryview) -> bytes:
    return _local.compressor.compress(plain)


def compress_all(pieces: Sequence[memoryview]) -> list[bytes]:
    """As `compress` of each."""
    if not pieces:
        return []
    packed = _local.compressor.multi_compress_to_buffer(list(pieces), threads=0)
    return [packed[number].tobytes() for number in range(len(packed))]


def decompress_all(packed: Sequence[bytes], plain_bytes: Sequence[int]) -> list[memoryview]:
    """As `decompress` of each; one that is not what was announced refuses all. Memory: all of them at once.

    For bytes that were authenticated: what lies behind a frame's end is not looked at.
    """
    if not packed:
        return []
    try:
        announced = [zstandard.frame_content_size(one) for one in packed]
        if announced != list(plain_bytes):
            raise CodecError("announced size differs")
        sizes = struct.pack(f"={len(plain_bytes)}Q", *plain_bytes)
        found = _local.decompressor.multi_decompress_to_buffer(list(packed), decompressed_sizes=sizes, threads=0)
    except zstandard.ZstdError:
        raise CodecError("not a zstd frame") from None
    return [memoryview(found[number]) for number in range(len(found))]  # type: ignore[arg-type]  # a buffer, which its stub does not say


def decompress(packed: bytes, plain_bytes: int) -> bytes:
    """Exactly `plain_bytes` bytes, or CodecError. The size in the frame's own header is believed only if it is that size."""
    try:
        if zstandard.frame_content_size(packed) != plain_bytes:
            raise CodecError("announced size differs")
        plain = _local.decompressor.decompress(packed, max_output_size=plain_bytes, allow_extra_data=False)
    except zstandard.ZstdError:
        raise CodecError("not a zstd frame") from None
    if len(plain) != plain_bytes:
        raise CodecError("size differs")
    return plain
