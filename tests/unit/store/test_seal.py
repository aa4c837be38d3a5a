"""Sealing: a part opens in its place of its object of its account, and nowhere else."""

import pytest

from checkpoints_app.store import IntegrityError, Kind, SecretKey, derive_keys
from checkpoints_app.store.seal import Opener, Sealer, Section
from tests.store_kit import ACCOUNT, KEYS


def test_parts_open_in_their_places():
    sealer = Sealer(KEYS, Kind.PACK, ACCOUNT)
    parts = [sealer.seal(Section.FRAME, b"zero"), sealer.seal(Section.FRAME, b"one"), sealer.seal(Section.TABLE, b"table")]
    opener = Opener(KEYS, Kind.PACK, ACCOUNT, sealer.object_id)
    places = [(Section.FRAME, 0), (Section.FRAME, 1), (Section.TABLE, 0)]
    assert [opener.open(*place, part) for place, part in zip(places, parts, strict=True)] == [b"zero", b"one", b"table"]


def test_every_flipped_bit_is_refused():
    sealer = Sealer(KEYS, Kind.PACK, ACCOUNT)
    sealed = sealer.seal(Section.FRAME, b"content")
    opener = Opener(KEYS, Kind.PACK, ACCOUNT, sealer.object_id)
    for bit in range(len(sealed) * 8):
        damaged = bytearray(sealed)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError, match=sealer.object_id):
            opener.open(Section.FRAME, 0, bytes(damaged))


@pytest.mark.parametrize(
    "elsewhere",
    [
        lambda own: (Opener(KEYS, Kind.PACK, ACCOUNT, own), Section.FRAME, 1),
        lambda own: (Opener(KEYS, Kind.PACK, ACCOUNT, own), Section.TABLE, 0),
        lambda own: (Opener(KEYS, Kind.MANIFEST, ACCOUNT, own), Section.FRAME, 0),
        lambda own: (Opener(KEYS, Kind.PACK, "acct-2", own), Section.FRAME, 0),
        lambda own: (Opener(KEYS, Kind.PACK, ACCOUNT, "0" * 64), Section.FRAME, 0),
        lambda own: (Opener(derive_keys(SecretKey(bytes(32))), Kind.PACK, ACCOUNT, own), Section.FRAME, 0),
    ],
    ids=["number", "section", "kind", "account", "object", "key"],
)
def test_a_part_does_not_open_elsewhere(elsewhere):
    sealer = Sealer(KEYS, Kind.PACK, ACCOUNT)
    sealed = sealer.seal(Section.FRAME, b"content")
    opener, section, number = elsewhere(sealer.object_id)
    with pytest.raises(IntegrityError):
        opener.open(section, number, sealed)


def test_account_names_do_not_run_into_object_ids():
    sealer = Sealer(KEYS, Kind.PACK, "ab")
    sealed = sealer.seal(Section.FRAME, b"content")
    with pytest.raises(IntegrityError):
        Opener(KEYS, Kind.PACK, "a", sealer.object_id).open(Section.FRAME, 0, sealed)


def test_equal_content_is_sealed_differently_each_time():
    sealers = [Sealer(KEYS, Kind.PACK, ACCOUNT) for _ in range(50)]
    sealed = [sealer.seal(Section.FRAME, bytes(100)) for sealer in sealers for _ in range(2)]
    assert len(set(sealed)) == 100


def test_a_refusal_does_not_carry_the_plain_bytes():
    sealer = Sealer(KEYS, Kind.PACK, ACCOUNT)
    sealed = sealer.seal(Section.FRAME, b"guest secret")
    with pytest.raises(IntegrityError) as caught:
        Opener(KEYS, Kind.PACK, ACCOUNT, sealer.object_id).open(Section.FRAME, 1, sealed)
    assert "guest secret" not in str(caught.value)
    assert (caught.value.kind, caught.value.object_id) == ("pack", sealer.object_id)
    assert caught.value.__cause__ is None
