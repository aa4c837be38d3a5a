"""The pack: what was encoded decodes; whatever else lies under its name is refused."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints_app.store import IntegrityError, Kind, packs
from checkpoints_app.store.codec import compress
from checkpoints_app.store.extents import PACK_UNITS
from checkpoints_app.store.ids import UNIT_BYTES, ids_from_bytes, unit_ids
from checkpoints_app.store.packs import (
    HEADER,
    MAGIC,
    MAX_HEAD_BYTES,
    RAW,
    VERSION,
    ZSTD,
    decode_frame,
    decode_head,
    encode_pack,
    pack_opener,
    verify_encoded,
)
from checkpoints_app.store.seal import Sealer, Section
from tests.store_kit import ACCOUNT, KEYS, content

ID_KEY = KEYS.id_key.reveal()


def encoded(image):
    sealer = Sealer(KEYS, Kind.PACK, ACCOUNT)
    plain = memoryview(image.tobytes())
    pack = encode_pack(sealer, plain, unit_ids(ID_KEY, plain, range(0, len(plain), UNIT_BYTES)))
    return pack_opener(KEYS, ACCOUNT, sealer.object_id), pack, b"".join(pack.chunks)


def decoded(opener, stored):
    index = decode_head(opener, stored[:MAX_HEAD_BYTES], len(stored))
    frames = range(len(index.codecs))
    return b"".join(decode_frame(opener, index, frame, stored[index.offsets[frame] : index.offsets[frame + 1]]) for frame in frames)


@settings(max_examples=25, deadline=None)
@given(units=st.integers(1, 100), seed=st.integers(0, 9))
def test_a_pack_decodes_to_its_units_and_ids(units, seed):
    image = content(units, seed)
    opener, pack, stored = encoded(image)
    assert decoded(opener, stored) == image.tobytes()
    index = decode_head(opener, stored, len(stored))
    assert np.array_equal(index.ids, pack.index.ids)
    assert index.stored_bytes == len(stored) == pack.index.stored_bytes
    verify_encoded(opener, ID_KEY, pack)


def test_the_largest_pack_fits_its_bounds():
    opener, _, stored = encoded(content(PACK_UNITS))
    assert len(decoded(opener, stored)) == PACK_UNITS * UNIT_BYTES


def test_what_does_not_compress_is_kept_raw():
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, (32, UNIT_BYTES), dtype=np.uint8)
    opener, pack, stored = encoded(np.concatenate((content(32), noise)))
    assert pack.index.codecs.tolist() == [ZSTD, RAW]
    assert decoded(opener, stored)[32 * UNIT_BYTES :] == noise.tobytes()


def test_a_flipped_bit_anywhere_is_refused():
    opener, _, stored = encoded(content(40))
    rng = np.random.default_rng(2)
    positions = [*range(HEADER.size + 64), *rng.integers(0, len(stored), 200).tolist(), *range(len(stored) - 32, len(stored))]
    for at in positions:
        damaged = bytearray(stored)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(IntegrityError, match=opener.object_id):
            decoded(opener, bytes(damaged))


def test_cut_and_extended_packs_are_refused():
    opener, _, stored = encoded(content(40))
    ends = [*range(HEADER.size + 100), *range(HEADER.size + 100, len(stored), 997), len(stored) - 1]
    for damaged in [*(stored[:end] for end in ends), stored + b"\0", stored + stored]:
        with pytest.raises(IntegrityError):
            decoded(opener, damaged)


def test_frames_that_changed_places_are_refused():
    opener, pack, _ = encoded(np.concatenate([content(32)] * 2))  # two frames of equal content and size
    header, table, first, second = pack.chunks
    with pytest.raises(IntegrityError, match="frame 0"):
        decoded(opener, b"".join((header, table, second, first)))


def test_a_header_that_announces_gigabytes_is_refused_before_they_are_taken():
    opener, _, stored = encoded(content(2))
    hostile = HEADER.pack(MAGIC, VERSION, UNIT_BYTES, bytes.fromhex(opener.object_id), 0xFFFFFFFF) + stored[HEADER.size :]
    tracemalloc.start()
    try:
        with pytest.raises(IntegrityError, match="table"):
            decode_head(opener, hostile, 1 << 40)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def with_table(table: bytes, frames: bytes = b""):
    """An authentic pack with this table: what a faulty writer or a holder of the key could make."""
    sealer = Sealer(KEYS, Kind.PACK, ACCOUNT)
    sealed = sealer.seal(Section.TABLE, table)
    stored = HEADER.pack(MAGIC, VERSION, UNIT_BYTES, bytes.fromhex(sealer.object_id), len(sealed)) + sealed + frames
    return pack_opener(KEYS, ACCOUNT, sealer.object_id), stored


def table(frames, units, rows, ids):
    packed = b"".join(bytes([codec, count]) + stored.to_bytes(4, "little") for codec, count, stored in rows)
    return frames.to_bytes(4, "little") + units.to_bytes(4, "little") + packed + bytes(32 * ids)


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\0" * 7,
        table(0, 0, [], 0),
        table(1, 0, [(ZSTD, 0, 20)], 0),
        table(1, 2, [(ZSTD, 1, 20)], 2),
        table(1, 1, [(ZSTD, 1, 20)], 2),
        table(1, 1, [(7, 1, 20)], 1),
        table(1, 33, [(ZSTD, 33, 20)], 33),
        table(1, 1, [(RAW, 1, 4111)], 1),
        table(1, 1, [(RAW, 1, 4113)], 1),
        table(1, 1, [(ZSTD, 1, 16)], 1),
        table(1, 1, [(ZSTD, 1, 4112)], 1),
        table(1, 1, [(ZSTD, 1, 0xFFFFFFFF)], 1),
        table(2, 1, [(ZSTD, 1, 20), (ZSTD, 0, 20)], 1),
        table(0xFFFFFFFF, 0xFFFFFFFF, [], 0),
        table(1, PACK_UNITS + 1, [(ZSTD, 1, 20)], PACK_UNITS + 1)[:100],
    ],
)
def test_an_authentic_table_that_does_not_fit_is_refused(hostile):
    opener, stored = with_table(hostile, bytes(20))
    with pytest.raises(IntegrityError):
        decode_head(opener, stored, len(stored))


def test_an_authentic_frame_that_expands_beyond_its_units_is_refused():
    sealer = Sealer(KEYS, Kind.PACK, ACCOUNT)
    frame = sealer.seal(Section.FRAME, compress(bytes(64 << 20)))
    sealed = sealer.seal(Section.TABLE, table(1, 32, [(ZSTD, 32, len(frame))], 32))
    stored = HEADER.pack(MAGIC, VERSION, UNIT_BYTES, bytes.fromhex(sealer.object_id), len(sealed)) + sealed + frame
    with pytest.raises(IntegrityError, match="decompress"):
        decoded(pack_opener(KEYS, ACCOUNT, sealer.object_id), stored)


def test_an_encoder_that_errs_is_noticed_before_the_pack_counts(monkeypatch):
    monkeypatch.setattr(packs, "compress_all", lambda pieces: [compress(bytes(plain[:-1]) + b"\xff") for plain in pieces])
    opener, pack, _ = encoded(content(8))
    with pytest.raises(IntegrityError, match="other content than was hashed"):
        verify_encoded(opener, ID_KEY, pack)


def test_a_table_of_other_ids_is_noticed_before_the_pack_counts():
    image = content(3)
    sealer = Sealer(KEYS, Kind.PACK, ACCOUNT)
    pack = encode_pack(sealer, memoryview(image.tobytes()), ids_from_bytes(bytes(96)))
    with pytest.raises(IntegrityError):
        verify_encoded(pack_opener(KEYS, ACCOUNT, sealer.object_id), ID_KEY, pack)
