"""Compression: what comes out is what was announced, or nothing is made."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard

from checkpoints_app.store.codec import CodecError, compress, decompress
from tests.store_kit import content


def test_content_comes_back():
    plain = content(4).tobytes()
    assert decompress(compress(plain), len(plain)) == plain


def test_a_bomb_is_refused_before_its_memory_is_taken():
    bomb = zstandard.ZstdCompressor().compress(bytes(256 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="announced"):
            decompress(bomb, 131072)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_frame_that_hides_its_size_is_refused():
    hidden = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(4096))
    with pytest.raises(CodecError):
        decompress(hidden, 4096)


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-1], lambda raw: raw + b"\0", lambda raw: raw + raw, lambda raw: b"", lambda raw: b"\0" * 99]
)
def test_cut_extended_and_foreign_bytes_are_refused(damage):
    with pytest.raises(CodecError):
        decompress(damage(compress(content(1).tobytes())), 4096)


def test_threads_do_not_disturb_each_other():
    plains = [content(8, seed).tobytes() for seed in range(64)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda plain: decompress(compress(plain), len(plain)) == plain, plains)) == [True] * 64
