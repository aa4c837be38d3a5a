"""A plan crosses to another process whole, and by no way on which it could be read."""

import os

import numpy as np

from checkpoints_app.store import LocalBackend, load_manifest
from checkpoints_app.store.bitmap import as_set
from checkpoints_app.store.reader import load_indexes_of
from checkpoints_app.store.rewrite import rewrite_pack
from tests.store_kit import ACCOUNT, KEYS, content, save
from tests.support.lazy_store import plan_of
from workers.lazy.plan import receive, secret_file, send


def crossed(plan):
    fd = secret_file()
    try:
        send(plan, fd)
        return receive(fd)
    finally:
        os.close(fd)


def test_what_is_received_is_what_was_sent(tmp_path):
    backend = LocalBackend(tmp_path)
    memory = content(9000)
    memory[5:50] = 0
    plan = plan_of(backend, save(backend, None, memory).manifest, first=[3, 1, 2], name="somewhere")
    other = crossed(plan)
    assert (other.account_id, other.store, other.packs, other.length_bytes, other.told) == (
        plan.account_id, plan.store, plan.packs, plan.length_bytes, plan.told,
    )  # fmt: skip
    assert other.keys.pack_key.reveal() == KEYS.pack_key.reveal()
    assert other.first.tolist() == [3, 1, 2]
    assert (other.locations == plan.locations).all()
    for name, index in plan.indexes.items():
        assert (other.indexes[name].ids == index.ids).all()
        assert other.indexes[name].offsets.tolist() == index.offsets.tolist()


def test_a_pack_that_was_rewritten_crosses_with_its_numbers(tmp_path):
    backend = LocalBackend(tmp_path)
    memory = content(100)
    manifest = save(backend, None, memory).manifest
    (pack_id,) = manifest.packs
    (index,) = load_indexes_of(backend, KEYS, ACCOUNT, [pack_id]).values()
    rewrite_pack(backend, KEYS, ACCOUNT, index, 1, as_set(np.arange(0, 100, 2), 100))
    (moved,) = load_indexes_of(backend, KEYS, ACCOUNT, [pack_id], generations=lambda ids: dict.fromkeys(ids, 1)).values()
    plan = plan_of(backend, load_manifest(backend, KEYS, ACCOUNT, manifest.manifest_id))
    plan.indexes[pack_id] = moved  # type: ignore[index]
    received = crossed(plan).indexes[pack_id]
    assert received.generation == 1
    assert received.rewriting == moved.rewriting
    assert received.positions_of(np.array([0, 1, 98])).tolist() == moved.positions_of(np.array([0, 1, 98])).tolist()


def test_a_plan_shows_no_key_in_its_text(tmp_path):
    plan = plan_of(LocalBackend(tmp_path), save(LocalBackend(tmp_path), None, content(3)).manifest)
    assert KEYS.pack_key.reveal().hex() not in repr(plan)
