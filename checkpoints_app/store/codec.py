"""zstd with every output bounded before it is allocated, and one (de)compressor per thread (they are not thread-safe)."""

import threading

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
