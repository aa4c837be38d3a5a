"""How an image is read back: each frame once, in bounded runs, nothing unverified."""

import threading

import numpy as np
import pytest

from checkpoints_app.store import CheckpointWriter, LocalBackend, load_index, load_manifest, restore_image
from checkpoints_app.store.ids import UNIT_BYTES
from tests.store_kit import ACCOUNT, FACTS, KEYS, content, pages, save


@pytest.fixture
def backend(tmp_path):
    return LocalBackend(tmp_path / "store")


def runs_of(backend, manifest, **options):
    runs, lock = [], threading.Lock()

    def sink(unit, data):
        with lock:
            runs.append((unit, bytes(data)))

    restore_image(backend, KEYS, ACCOUNT, manifest, "memory", sink, **options)
    return sorted(runs)


def test_each_unit_is_handed_over_once_and_zero_ones_never(backend):
    memory = content(500)
    memory[100:300] = 0
    memory[400:420] = memory[3]
    manifest = save(backend, None, memory).manifest
    units = [unit + at for unit, data in runs_of(backend, manifest) for at in range(len(data) // UNIT_BYTES)]
    assert units == [*range(100), *range(300, 500)]


def test_runs_are_bounded_whatever_repeats(backend):
    memory = np.repeat(content(1), 5000, axis=0)
    runs = runs_of(backend, save(backend, None, memory).manifest)
    assert max(len(data) for _, data in runs) <= 1 << 20
    assert b"".join(data for _, data in runs) == memory.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_no_frame_is_read_twice_and_no_other_is_read(backend, threads, monkeypatch):
    first = content(9000)
    parent = save(backend, None, first).manifest
    second = first.copy()
    second[: 8 * 512] = content(8 * 512, 2)  # whole frames of the parent's first pack fall out of use
    manifest = save(backend, parent, second, range(8 * 512)).manifest
    times_read = {listed.key: np.zeros(listed.object_bytes, int) for listed in backend.list(f"accounts/{ACCOUNT}/packs/")}
    lock, plain_read = threading.Lock(), LocalBackend.read

    def counting_read(self, key, offset, length):
        with lock:
            times_read[key][offset : offset + length] += 1
        return plain_read(self, key, offset, length)

    monkeypatch.setattr(LocalBackend, "read", counting_read)
    assert b"".join(data for _, data in runs_of(backend, manifest, threads=threads)) == second.tobytes()
    times = np.concatenate(list(times_read.values()))
    assert times.max() == 1
    assert times.mean() < 0.8


def test_what_the_sink_raises_comes_out_and_ends_the_restore(backend):
    manifest = save(backend, None, content(3 * 4096)).manifest
    calls = []

    def sink(unit, data):
        calls.append(unit)
        raise OSError("target is full")

    with pytest.raises(OSError, match="target is full"):
        restore_image(backend, KEYS, ACCOUNT, manifest, "memory", sink, threads=1)
    assert len(calls) <= 3  # at most once per pack; the rest is cancelled


def test_an_image_of_nothing_but_zeros_needs_no_pack(backend):
    manifest = save(backend, None, np.zeros((100, UNIT_BYTES), np.uint8)).manifest
    assert manifest.packs == ()
    assert runs_of(backend, manifest) == []


def test_the_manifest_in_hand_after_a_save_equals_the_one_that_is_loaded(backend):
    memory = content(100)
    parent = save(backend, None, memory).manifest
    index = load_index(backend, KEYS, ACCOUNT, parent)
    with CheckpointWriter(backend, KEYS, ACCOUNT, parent, index) as writer:
        writer.add_image("memory", memory.size, None, pages(content(100, 1), range(0, 100, 3)))
        saved = writer.finish(FACTS).manifest
    loaded = load_manifest(backend, KEYS, ACCOUNT, saved.manifest_id)
    assert (loaded.packs, loaded.ancestors, loaded.digest, loaded.facts) == (saved.packs, saved.ancestors, saved.digest, saved.facts)
    assert np.array_equal(loaded.images["memory"].locations, saved.images["memory"].locations)


def test_a_map_cannot_be_changed_by_accident(backend):
    manifest = save(backend, None, content(3)).manifest
    with pytest.raises(ValueError, match="read-only"):
        manifest.images["memory"].locations[0] = 7
