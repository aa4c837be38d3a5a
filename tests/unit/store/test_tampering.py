"""Whatever is done to a stored object, a restore gives the right bytes or is refused; it never gives others."""

import numpy as np
import pytest

from checkpoints_app.store import (
    IntegrityError,
    Kind,
    LocalBackend,
    MissingObjectError,
    SecretKey,
    derive_keys,
    load_index,
    load_manifest,
    object_key,
    restore_image,
    verify_roots,
)
from checkpoints_app.store.backends.local import path_of
from checkpoints_app.store.packs import MAX_HEAD_BYTES, decode_frame, decode_head, pack_opener
from tests.store_kit import ACCOUNT, KEYS, content, restore, save

MEMORY = content(100, 1)
NEXT = np.concatenate((MEMORY[:50], content(50, 2)))


@pytest.fixture
def backend(tmp_path):
    return LocalBackend(tmp_path / "store")


@pytest.fixture
def line(backend):
    """A full checkpoint and one built on it."""
    first = save(backend, None, MEMORY)
    return first, save(backend, first.manifest, NEXT)


def objects(backend):
    return {listed.key: path_of(backend.root, listed.key) for listed in backend.list("")}


def positions(size, seed):
    rng = np.random.default_rng(seed)
    return sorted({*range(min(size, 80)), *range(max(0, size - 20), size), *rng.integers(0, size, 60).tolist()})


def test_a_flipped_bit_in_any_object_is_refused_naming_it(backend, line):
    checked = 0
    for seed, (key, path) in enumerate(objects(backend).items()):
        good = path.read_bytes()
        kind, object_id = key.split("/")[-2].removesuffix("s"), key.split("/")[-1]
        for at in positions(len(good), seed):
            damaged = bytearray(good)
            damaged[at] ^= 1 << at % 8
            path.write_bytes(damaged)
            with pytest.raises(IntegrityError) as caught:
                read_all(backend, line)
            assert (caught.value.kind, caught.value.object_id) == (kind, object_id)
            checked += 1
        path.write_bytes(good)
    assert checked > 400
    read_all(backend, line)


def test_a_cut_or_extended_object_is_refused(backend, line):
    for seed, path in enumerate(objects(backend).values()):
        good = path.read_bytes()
        for damaged in [*(good[:end] for end in positions(len(good), seed)), good + b"\0", good + good]:
            path.write_bytes(damaged)
            with pytest.raises(IntegrityError):
                read_all(backend, line)
        path.write_bytes(good)


def test_objects_that_changed_places_are_refused(backend, line):
    paths = list(objects(backend).values())
    contents = [path.read_bytes() for path in paths]
    for one, path in enumerate(paths):
        for other, foreign in enumerate(contents):
            if one != other:
                path.write_bytes(foreign)
                with pytest.raises(IntegrityError):
                    read_all(backend, line)
                path.write_bytes(contents[one])


def test_a_missing_object_is_named(backend, line):
    for key, path in objects(backend).items():
        good = path.read_bytes()
        path.unlink()
        with pytest.raises(MissingObjectError, match=key):
            read_all(backend, line)
        path.write_bytes(good)


def test_no_wrong_byte_reaches_a_sink_before_the_refusal(backend, line):
    manifest, refused = line[1].manifest, 0
    for pack_id in line[1].packs:
        path = path_of(backend.root, object_key(ACCOUNT, Kind.PACK, pack_id))
        good = path.read_bytes()
        for at in range(6000, len(good), 15000):
            path.write_bytes(good[:at] + bytes([good[at] ^ 255]) + good[at + 1 :])
            received: list[tuple[int, bytes]] = []
            try:
                restore_image(backend, KEYS, ACCOUNT, manifest, "memory", collector(received))
            except IntegrityError:
                refused += 1  # the frames that this checkpoint does not need may be damaged without harm to it
            assert all(data == NEXT.reshape(-1)[unit * 4096 : unit * 4096 + len(data)].tobytes() for unit, data in received)
        path.write_bytes(good)
    assert refused >= 10


def test_another_accounts_keys_open_nothing(backend, line):
    strangers = derive_keys(SecretKey(b"s" * 32))
    with pytest.raises(IntegrityError):
        restore(backend, line[0].manifest.manifest_id, keys=strangers)
    with pytest.raises(IntegrityError):
        load_index(backend, strangers, ACCOUNT, line[0].manifest)


def test_objects_copied_to_another_account_are_refused_there(backend, line):
    manifest_id = line[0].manifest.manifest_id
    for key, path in objects(backend).items():
        backend.put_if_absent(key.replace(ACCOUNT, "acct-2"), [path.read_bytes()])
    with pytest.raises(IntegrityError, match=manifest_id):
        load_manifest(backend, KEYS, "acct-2", manifest_id)


def test_an_id_that_is_no_id_is_refused_before_anything_is_read(backend):
    for manifest_id in ("../../etc/passwd", "", "A" * 64, "0" * 63):
        with pytest.raises(ValueError, match=r"hex|fromhex"):
            load_manifest(backend, KEYS, ACCOUNT, manifest_id)


def test_refusals_tell_nothing_of_content_or_keys(backend):
    secret = np.frombuffer((b"provider key sk-123 " * 205)[:4096], np.uint8).reshape(1, 4096)
    saved = save(backend, None, secret)
    path = path_of(backend.root, object_key(ACCOUNT, Kind.PACK, saved.packs[0]))
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(IntegrityError) as caught:
        restore(backend, saved.manifest.manifest_id)
    text = repr(caught.value) + str(caught.value) + repr(KEYS)
    assert "sk-123" not in text
    assert all(key.reveal().hex() not in text for key in (KEYS.id_key, KEYS.pack_key, KEYS.manifest_key))


def test_stored_objects_hold_no_plain_content_and_no_plain_ids(backend):
    secret = np.frombuffer((b"provider key sk-123 " * 205)[:4096], np.uint8).reshape(1, 4096)
    saved = save(backend, None, secret, facts={"pin": "visible-pin", "watermarks": {}})
    stored = b"".join(path.read_bytes() for path in objects(backend).values())
    assert b"sk-123" not in stored
    assert b"visible-pin" not in stored
    assert saved.new_units.ids_of(saved.packs[0]).tobytes() not in stored


def collector(received):
    return lambda unit, data: received.append((unit, bytes(data)))


def read_all(backend, line):
    """Both checkpoints, and every byte of every pack, also those that these checkpoints do not need."""
    for saved, expected in zip(line, (MEMORY, NEXT), strict=True):
        if not np.array_equal(restore(backend, saved.manifest.manifest_id), expected):
            raise AssertionError("a restore gave other bytes")
        verify_roots(backend, KEYS, ACCOUNT, saved.manifest)
        for pack_id in saved.packs:
            key = object_key(ACCOUNT, Kind.PACK, pack_id)
            head = backend.head(key, MAX_HEAD_BYTES)
            opener = pack_opener(KEYS, ACCOUNT, pack_id)
            index = decode_head(opener, head.data, head.object_bytes)
            for frame in range(len(index.codecs)):
                start, end = int(index.offsets[frame]), int(index.offsets[frame + 1])
                decode_frame(opener, index, frame, backend.read(key, start, end - start))
