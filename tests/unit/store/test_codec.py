"""Compression: what comes out is what was announced, or nothing is made."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard

from checkpoints_app.store.codec import CodecError, compress, compress_all, decompress, decompress_all
from tests.store_kit import content


def one_of_two(packed: bytes, plain_bytes: int) -> memoryview:
    """The second of two frames that are decompressed together."""
    return decompress_all([compress(bytes(4096)), packed], [4096, plain_bytes])[1]


both_forms = pytest.mark.parametrize("decompress", [decompress, one_of_two])


def test_content_comes_back():
    plain = content(4).tobytes()
    assert decompress(compress(plain), len(plain)) == plain


def test_many_pieces_are_compressed_as_each_alone_and_come_back():
    pieces = [memoryview(content(count, count).tobytes()) for count in (1, 32, 7)]
    packed = compress_all(pieces)
    assert packed == [compress(piece) for piece in pieces]
    assert [bytes(plain) for plain in decompress_all(packed, [len(piece) for piece in pieces])] == [bytes(piece) for piece in pieces]
    assert (compress_all([]), decompress_all([], [])) == ([], [])


@both_forms
def test_a_bomb_is_refused_before_its_memory_is_taken(decompress):
    bomb = zstandard.ZstdCompressor().compress(bytes(256 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="announced"):
            decompress(bomb, 131072)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@both_forms
def test_a_frame_that_hides_its_size_is_refused(decompress):
    hidden = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(4096))
    with pytest.raises(CodecError):
        decompress(hidden, 4096)


@both_forms
@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: b"", lambda raw: b"\0" * 99])
def test_cut_and_foreign_bytes_are_refused(damage, decompress):
    with pytest.raises(CodecError):
        decompress(damage(compress(content(1).tobytes())), 4096)


@pytest.mark.parametrize("damage", [lambda raw: raw + b"\0", lambda raw: raw + raw])
def test_bytes_behind_the_frame_are_refused(damage):
    with pytest.raises(CodecError):
        decompress(damage(compress(content(1).tobytes())), 4096)


def test_threads_do_not_disturb_each_other():
    plains = [content(8, seed).tobytes() for seed in range(64)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda plain: decompress(compress(plain), len(plain)) == plain, plains)) == [True] * 64
