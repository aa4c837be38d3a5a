"""Manifests that are authentic and still do not fit: what a faulty writer, or a holder of the key, could have stored."""

import json
from typing import Any

import numpy as np
import pytest

from checkpoints_app.store import IntegrityError, Kind, LocalBackend, load_manifest, object_key, restore_image, verify_roots
from checkpoints_app.store.codec import compress
from checkpoints_app.store.extents import encode_runs, runs_of
from checkpoints_app.store.ids import UNIT_BYTES, canonical_json
from checkpoints_app.store.manifest import digest_of
from checkpoints_app.store.manifest_codec import HEADER, MAGIC, MAX_PLAIN_BYTES, VERSION
from checkpoints_app.store.seal import Sealer, Section
from tests.store_kit import ACCOUNT, FACTS, KEYS, content, save

ROOT = "a" * 64


@pytest.fixture
def backend(tmp_path):
    return LocalBackend(tmp_path / "store")


def head(**changes):
    image: dict[str, Any] = {"name": "memory", "length": 4 * UNIT_BYTES, "base": None, "root": ROOT, "delta": False, "extents": 1}
    image.update({name: value for name, value in changes.items() if name in image})
    whole = {"parent": None, "facts": FACTS, "digest": digest_of(FACTS, {image["name"]: image["root"]}), "packs": 1, "images": [image]}
    return whole | {name: value for name, value in changes.items() if name in whole}


def extents(locations=(0, 1, 2, 3)):
    return encode_runs(runs_of(np.arange(len(locations)), np.array(locations, np.int64)))


def stored(backend, plain, announced=None):
    sealer = Sealer(KEYS, Kind.MANIFEST, ACCOUNT)
    header = HEADER.pack(MAGIC, VERSION, bytes.fromhex(sealer.object_id), len(plain) if announced is None else announced)
    backend.put_if_absent(object_key(ACCOUNT, Kind.MANIFEST, sealer.object_id), [header, sealer.seal(Section.TABLE, compress(plain))])
    return sealer.object_id


def body(head_, *parts):
    raw = head_ if isinstance(head_, bytes) else json.dumps(head_).encode()
    return len(raw).to_bytes(4, "little") + raw + b"".join(parts)


def test_a_manifest_made_by_hand_loads(backend):
    manifest = load_manifest(backend, KEYS, ACCOUNT, stored(backend, body(head(), bytes(32), extents())))
    assert manifest.images["memory"].locations.tolist() == [0, 1, 2, 3]
    assert manifest.referenced_packs == ("0" * 64,)


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"\0\0\0",
        b"\xff\xff\xff\xff{}",
        body(b"not json"),
        body(b"[]"),
        body(b"{}"),
        body(b"[" * 100000),
        body(head(packs=-1), bytes(32), extents()),
        body(head(packs=2), bytes(32), extents()),
        body(head(packs=1 << 40), bytes(32), extents()),
        body(head(packs="many"), bytes(32), extents()),
        body(head(extents=-1), bytes(32), extents()),
        body(head(extents=2), bytes(32), extents()),
        body(head(extents=1 << 60), bytes(32), extents()),
        body(head(), bytes(32), extents(), b"\0"),
        body(head(), bytes(32), extents((0, 1, 2, 3, 4))),
        body(head(), bytes(32), extents((65536, 65537, 65538, 65539))),
        body(head(), bytes(32), extents((-2, -2, -2, -2))),
        body(head(name="swap"), bytes(32), extents()),
        body(head(length=0), bytes(32), extents()),
        body(head(length=1 << 62), bytes(32), extents()),
        body(head(length="4096"), bytes(32), extents()),
        body(head(base="image ../.."), bytes(32), extents()),
        body(head(root="../x"), bytes(32), extents()),
        body(head(delta=True), bytes(32), extents()),
        body(head(parent="x"), bytes(32), extents()),
        body(head(parent=7), bytes(32), extents()),
        body(head(digest="b" * 64), bytes(32), extents()),
        body(head(facts={}), bytes(32), extents()),
        body(head(images=None), bytes(32), extents()),
        body(head(images=[7]), bytes(32), extents()),
        body(head(images=head()["images"] * 2), bytes(32), extents(), extents()),
        body(head(facts=[FACTS]), bytes(32), extents()),
        body(head(length=4.0 * UNIT_BYTES), bytes(32), extents()),
    ],
)
def test_an_authentic_manifest_that_does_not_fit_is_refused(backend, plain):
    manifest_id = stored(backend, plain)
    with pytest.raises(IntegrityError, match=manifest_id):
        load_manifest(backend, KEYS, ACCOUNT, manifest_id)


@pytest.mark.parametrize("announced", [0, 10, MAX_PLAIN_BYTES, MAX_PLAIN_BYTES + 1, 0xFFFFFFFF])
def test_a_manifest_of_another_size_than_announced_is_refused(backend, announced):
    manifest_id = stored(backend, body(head(), bytes(32), extents()), announced)
    with pytest.raises(IntegrityError, match=manifest_id):
        load_manifest(backend, KEYS, ACCOUNT, manifest_id)


def test_a_line_that_is_too_long_is_refused(backend):
    parent = stored(backend, body(head(), bytes(32), extents()))
    for _ in range(7):
        parent = stored(backend, body(head(parent=parent, packs=0, delta=True, extents=0)))
    assert len(load_manifest(backend, KEYS, ACCOUNT, parent).ancestors) == 7
    with pytest.raises(IntegrityError, match="line"):
        load_manifest(backend, KEYS, ACCOUNT, stored(backend, body(head(parent=parent, packs=0, delta=True, extents=0))))


def test_places_that_a_pack_does_not_have_are_refused(backend):
    pack = bytes.fromhex(save(backend, None, content(3)).packs[0])
    manifest = load_manifest(backend, KEYS, ACCOUNT, stored(backend, body(head(), pack, extents())))
    for read in (lambda: verify_roots(backend, KEYS, ACCOUNT, manifest), lambda: restore_to_nowhere(backend, manifest)):
        with pytest.raises(IntegrityError, match="places"):
            read()


def test_units_other_than_the_roots_are_refused_before_one_is_handed_over(backend):
    pack = bytes.fromhex(save(backend, None, content(4)).packs[0])
    manifest = load_manifest(backend, KEYS, ACCOUNT, stored(backend, body(head(), pack, extents())))
    with pytest.raises(IntegrityError, match="root"):
        verify_roots(backend, KEYS, ACCOUNT, manifest)
    with pytest.raises(IntegrityError, match="root"):
        restore_to_nowhere(backend, manifest)


def test_the_head_is_written_canonically():
    assert canonical_json({"b": 1, "a": [None, "é"]}) == b'{"a":[null,"\\u00e9"],"b":1}'


def restore_to_nowhere(backend, manifest):
    def sink(unit, data):
        raise AssertionError("a unit was handed over")

    restore_image(backend, KEYS, ACCOUNT, manifest, "memory", sink)
