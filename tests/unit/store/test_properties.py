"""For any history of saves: every checkpoint of it restores to what was saved, and identity depends on content alone."""

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints_app.store import CheckpointWriter, LocalBackend, load_index, load_manifest
from checkpoints_app.store.ids import UNIT_BYTES
from tests.store_kit import ACCOUNT, FACTS, KEYS, content, pages, quick_directory, restore

UNITS = 90  # a few frames
POOL = content(40, 3)
BASE_DISK = content(UNITS, 4)
IMAGE = "image " + "e" * 64


@dataclass(frozen=True)
class Change:
    """One moment: which units were written, with what (-1 zero, -2 the base's, else an entry of the pool), and how it is handed over."""

    written: dict[int, int]
    batch: int
    standalone: bool


changes = st.builds(
    Change,
    st.dictionaries(st.integers(0, UNITS - 1), st.integers(-2, len(POOL) - 1), max_size=UNITS),
    st.sampled_from([1, 7, 64, 1000]),
    st.booleans(),
)
histories = st.lists(changes, min_size=1, max_size=12)


def apply(disk, change):
    for unit, what in change.written.items():
        disk[unit] = 0 if what == -1 else BASE_DISK[unit] if what == -2 else POOL[what]


def save_disk(backend, parent, disk, change, *, whole=False):
    back = np.array(sorted(unit for unit, what in change.written.items() if what == -2), np.int64)
    rest = sorted(unit for unit, what in change.written.items() if what != -2)
    with CheckpointWriter(backend, KEYS, ACCOUNT, parent, load_index(backend, KEYS, ACCOUNT, parent)) as writer:
        writer.add_image("disk", disk.size, IMAGE, pages(disk, rest, change.batch), base_units=back, whole=whole)
        return writer.finish(FACTS, standalone=change.standalone)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories)
def test_every_checkpoint_of_a_history_restores_to_what_was_saved(history):
    with quick_directory() as directory:
        backend = LocalBackend(directory)
        disk, parent, moments = BASE_DISK.copy(), None, []
        for change in history:
            apply(disk, change)
            parent = save_disk(backend, parent, disk, change).manifest
            moments.append((parent.manifest_id, disk.copy()))
        for manifest_id, expected in moments:
            assert np.array_equal(restore(backend, manifest_id, "disk", over=BASE_DISK), expected)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories)
def test_identity_is_that_of_the_content_whatever_the_history(history):
    with quick_directory() as one, quick_directory() as two:
        disk, parent, all_written = BASE_DISK.copy(), None, dict[int, int]()
        for change in history:
            apply(disk, change)
            all_written |= change.written
            parent = save_disk(LocalBackend(one), parent, disk, change).manifest
        at_once = save_disk(LocalBackend(two), None, disk, Change(all_written, 33, True)).manifest
        assert parent is not None
        assert (parent.digest, parent.images["disk"].root) == (at_once.digest, at_once.images["disk"].root)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories)
def test_no_content_is_stored_twice_in_a_line(history):
    with quick_directory() as directory:
        backend, disk, parent, stored = LocalBackend(directory), BASE_DISK.copy(), None, []
        for change in history:
            apply(disk, change)
            saved = save_disk(backend, parent, disk, change)
            known = {row.tobytes() for pack in load_index_ids(backend, parent) for row in pack}
            stored = [row.tobytes() for pack in saved.new_packs for row in saved.new_units.ids_of(pack.pack_id)]
            assert len(stored) == len(set(stored))
            assert known.isdisjoint(stored)
            parent = saved.manifest


def load_index_ids(backend, parent):
    index = load_index(backend, KEYS, ACCOUNT, parent)
    return [index.ids_at(np.arange(len(index)))]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(length=st.integers(1, 20 * UNIT_BYTES), seed=st.integers(0, 5), threads=st.integers(1, 4))
def test_any_length_comes_back_to_the_byte(length, seed, threads):
    raw = np.random.default_rng(seed).bytes(length)
    units = -(-length // UNIT_BYTES)
    with quick_directory() as directory:
        backend = LocalBackend(directory)
        with CheckpointWriter(backend, KEYS, ACCOUNT, None, load_index(backend, KEYS, ACCOUNT, None), threads=threads) as writer:
            writer.add_image("devices", length, None, [(np.arange(units), raw)])
            manifest_id = writer.finish(FACTS).manifest.manifest_id
        assert load_manifest(backend, KEYS, ACCOUNT, manifest_id).logical_bytes == length
        assert restore(backend, manifest_id, "devices").tobytes() == raw + bytes(units * UNIT_BYTES - length)
