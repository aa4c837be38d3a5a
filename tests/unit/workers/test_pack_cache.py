"""Packs of a store elsewhere, kept on the host: read here, fetched once, believed no more than the store, gone with their object."""

import threading
from pathlib import Path

import numpy as np
import pytest

from checkpoints_app.store import Backend, LocalBackend, ObjectExistsError
from checkpoints_app.store.names import object_key
from checkpoints_app.store.seal import Kind
from tests.store_kit import ACCOUNT, content, restore, save
from tests.support.lazy_store import flip, plan_of
from tests.support.threads import at_once
from workers.cache.caching import CachingBackend
from workers.cache.packs import PackCache, sweep_temporary
from workers.lazy.loader import Loader

KEY = object_key(ACCOUNT, Kind.PACK, "a" * 64)


class Elsewhere(LocalBackend):
    """A store that counts what it is asked for."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.reads, self.streams = 0, 0
        self._counting = threading.Lock()

    def read(self, key, offset, length):
        with self._counting:
            self.reads += 1
        return super().read(key, offset, length)

    def stream(self, key, chunk_bytes=1 << 20):
        with self._counting:
            self.streams += 1
        return super().stream(key, chunk_bytes)


@pytest.fixture
def store(tmp_path):
    return Elsewhere(tmp_path / "store")


@pytest.fixture
def cache(tmp_path):
    return PackCache(tmp_path / "packs")


@pytest.fixture
def backend(store, cache) -> Backend:
    return CachingBackend(store, cache)


def test_what_this_host_saved_is_read_without_asking_the_store(backend, store):
    memory = content(5000)
    manifest = save(backend, None, memory).manifest
    assert (restore(backend, manifest.manifest_id) == memory).all()
    assert store.reads == 0


def test_one_of_all_who_want_a_pack_fetches_it(backend, store):
    store.put_if_absent(KEY, [b"x" * 100_000])
    at_once(6, lambda _: backend.fill(KEY))
    assert store.streams == 1
    assert backend.read(KEY, 99_990, 50) == b"x" * 10
    assert store.reads == 0


def test_a_pack_that_is_not_here_is_read_from_the_store_in_part(backend, store, cache):
    store.put_if_absent(KEY, [b"0123456789"])
    assert backend.read(KEY, 3, 4) == b"3456"
    assert backend.head(KEY, 4).data == b"0123"
    assert not cache.holds(KEY)


def test_a_save_that_is_given_up_keeps_nothing_and_one_that_fails_to_publish_neither(backend, store, cache):
    batch = backend.batch()
    batch.put(KEY, [b"new"])
    batch.discard()
    assert list(cache.kept()) == []
    store.put_if_absent(KEY, [b"old"])
    batch = backend.batch()
    batch.put(KEY, [b"new"])
    with pytest.raises(ObjectExistsError):
        batch.publish()
    batch.discard()
    assert backend.read(KEY, 0, 3) == b"old"


def test_a_pack_that_is_deleted_leaves_the_host(backend, cache):
    backend.put_if_absent(KEY, [b"secret"])
    backend.fill(KEY)
    assert cache.holds(KEY)
    backend.delete(KEY)
    assert list(cache.kept()) == []


def test_a_damaged_copy_is_dropped_and_the_store_decides(backend, store, cache, tmp_path):
    memory = content(50)
    manifest = save(backend, None, memory).manifest
    plan = plan_of(backend, manifest)
    (index,) = plan.indexes.values()
    flip(cache.directory / object_key(ACCOUNT, Kind.PACK, index.pack_id), int(index.offsets[0]) + 9)
    with open(tmp_path / "target", "w+b") as target:
        Loader(plan, backend, target.fileno()).load(index.pack_id, np.arange(50), np.arange(50))
        target.seek(0)
        assert target.read() == memory.tobytes()
    assert not list(cache.kept())
    assert store.reads > 0


def test_a_host_without_room_keeps_nothing_and_reads_on(backend, store, cache, monkeypatch):
    store.put_if_absent(KEY, [b"0123456789"])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workers.cache.packs._write", full)
    backend.fill(KEY)
    assert backend.read(KEY, 0, 3) == b"012"
    assert [path for path in cache.directory.rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_what_a_dead_process_left_half_made_is_removed(cache):
    left = cache.directory / "accounts" / ACCOUNT / "packs" / "tmp-999999999-aa"
    left.parent.mkdir(parents=True)
    left.touch()
    sweep_temporary(cache.directory)
    assert not left.exists()
