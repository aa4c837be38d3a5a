"""What a save stores, what it does not, and what it refuses."""

import numpy as np
import pytest

from checkpoints_app.store import (
    CheckpointWriter,
    IntegrityError,
    LocalBackend,
    NoSpaceError,
    UnitIndex,
    load_index,
    load_manifest,
    packs,
)
from checkpoints_app.store.codec import compress
from checkpoints_app.store.extents import PACK_UNITS
from checkpoints_app.store.ids import UNIT_BYTES
from tests.store_kit import ACCOUNT, FACTS, KEYS, content, pages, restore, save

IMAGE = "image " + "c" * 64


@pytest.fixture
def backend(tmp_path):
    return LocalBackend(tmp_path / "store")


def writer(backend, parent=None, **options):
    return CheckpointWriter(backend, KEYS, ACCOUNT, parent, load_index(backend, KEYS, ACCOUNT, parent), **options)


def test_an_idle_save_stores_no_pack_and_a_manifest_under_a_kilobyte(backend):
    memory = content(5000)
    first = save(backend, None, memory)
    idle = save(backend, first.manifest, memory, range(0, 5000, 7))
    assert (idle.new_packs, idle.unique_bytes, idle.packs) == ((), 0, first.packs)
    assert idle.stored_bytes == idle.manifest_bytes < 1024
    assert idle.manifest.digest == first.manifest.digest


def test_content_that_moved_is_not_stored_again(backend):
    memory = content(600)
    first = save(backend, None, memory)
    moved = np.roll(memory, 17, axis=0)
    second = save(backend, first.manifest, moved)
    assert second.unique_bytes == 0
    assert np.array_equal(restore(backend, second.manifest.manifest_id), moved)


def test_equal_units_of_one_save_are_stored_once(backend):
    memory = np.repeat(content(10), 200, axis=0)
    saved = save(backend, None, memory)
    assert saved.unique_bytes == 10 * UNIT_BYTES
    assert np.array_equal(restore(backend, saved.manifest.manifest_id), memory)


def test_images_of_one_checkpoint_share_content(backend):
    memory = content(300)
    with writer(backend) as save_:
        save_.add_image("memory", memory.size, None, pages(memory, range(300)))
        save_.add_image("disk", memory.size, None, pages(memory[::-1].copy(), range(300)))
        saved = save_.finish(FACTS)
    assert saved.unique_bytes == memory.size
    assert np.array_equal(restore(backend, saved.manifest.manifest_id, "disk"), memory[::-1])


def test_zero_units_are_not_stored(backend):
    memory = np.zeros((1000, UNIT_BYTES), np.uint8)
    memory[500] = 1
    saved = save(backend, None, memory)
    assert saved.unique_bytes == UNIT_BYTES
    assert [array.tolist() for array in saved.manifest.images["memory"].zero_runs()] == [[0, 501], [500, 499]]


def test_a_unit_that_becomes_zero_is_zero_after_restore(backend):
    memory = content(50)
    first = save(backend, None, memory)
    memory[20:30] = 0
    second = save(backend, first.manifest, memory, range(20, 30))
    assert np.array_equal(restore(backend, second.manifest.manifest_id), memory)


def test_sizes_say_what_was_written_new_and_stored(backend):
    memory = content(100)
    first = save(backend, None, memory)
    assert (first.logical_bytes, first.written_bytes, first.unique_bytes) == (memory.size,) * 3
    assert first.stored_bytes == sum(listed.object_bytes for listed in backend.list(""))
    memory[3] = 9
    second = save(backend, first.manifest, memory, [3, 4])
    assert (second.logical_bytes, second.written_bytes, second.unique_bytes) == (memory.size, 2 * UNIT_BYTES, UNIT_BYTES)
    assert [pack.unit_count for pack in second.new_packs] == [1]


def test_new_content_fills_packs_of_bounded_size(backend):
    memory = content(2 * PACK_UNITS + 5)
    saved = save(backend, None, memory)
    assert sorted(pack.unit_count for pack in saved.new_packs) == [5, PACK_UNITS, PACK_UNITS]
    assert np.array_equal(restore(backend, saved.manifest.manifest_id), memory)


def test_a_digest_does_not_depend_on_layout_or_history(backend, tmp_path):
    start, end = content(400, 1), content(400, 2)
    first = save(backend, None, start)
    second = save(backend, first.manifest, end, range(200))
    third = save(backend, second.manifest, end, range(200, 400))
    other = LocalBackend(tmp_path / "other")
    at_once = save(other, None, end)
    assert third.manifest.digest == at_once.manifest.digest
    assert third.roots == at_once.roots
    assert set(third.packs).isdisjoint(at_once.packs)


def test_a_digest_covers_pin_and_watermarks(backend):
    memory = content(5)
    saves = [save(backend, None, memory, facts={**FACTS, **change}) for change in ({}, {"pin": "pin-2"}, {"watermarks": {"event": 8}})]
    assert len({saved.manifest.digest for saved in saves}) == 3
    assert len({saved.roots["memory"] for saved in saves}) == 1


def test_facts_come_back(backend):
    saved = save(backend, None, content(2), facts={**FACTS, "spec": {"cpus": 2}})
    assert load_manifest(backend, KEYS, ACCOUNT, saved.manifest.manifest_id).facts == {**FACTS, "spec": {"cpus": 2}}


@pytest.mark.parametrize(
    "facts", [{}, {"pin": "p"}, {"pin": 1, "watermarks": {}}, {"pin": "p", "watermarks": {"a": "1"}}, {**FACTS, "x": "y" * 70000}]
)
def test_facts_that_do_not_fit_store_nothing(backend, facts):
    with pytest.raises(ValueError, match="facts"):
        save(backend, None, content(3), facts=facts)
    assert list(backend.list("")) == []
    assert list((backend.root / "staging").iterdir()) == []


class TestDiskOverABaseImage:
    def test_units_are_the_bases_until_written(self, backend):
        base, disk = content(300, 5), content(300, 5)
        disk[10:20] = content(10, 6)
        disk[40] = 0
        with writer(backend) as save_:
            save_.add_image("disk", disk.size, IMAGE, pages(disk, [*range(10, 20), 40]))
            saved = save_.finish(FACTS)
        assert saved.unique_bytes == 10 * UNIT_BYTES
        assert np.array_equal(restore(backend, saved.manifest.manifest_id, "disk", over=base), disk)

    def test_units_return_to_the_base_or_to_zero(self, backend):
        base, disk = content(100, 5), content(100, 6)
        with writer(backend) as save_:
            save_.add_image("disk", disk.size, IMAGE, pages(disk, range(100)))
            first = save_.finish(FACTS)
        disk[5:9], disk[50:60] = base[5:9], 0
        with writer(backend, first.manifest) as save_:
            save_.add_image("disk", disk.size, IMAGE, [], base_units=np.arange(5, 9), zero_units=np.arange(50, 60))
            second = save_.finish(FACTS)
        assert second.unique_bytes == 0
        assert [array.tolist() for array in second.manifest.images["disk"].base_runs()] == [[5], [4]]
        assert np.array_equal(restore(backend, second.manifest.manifest_id, "disk", over=base), disk)

    def test_a_root_names_the_base(self, backend):
        roots = set()
        for base in (IMAGE, "image " + "d" * 64):
            with writer(backend) as save_:
                save_.add_image("disk", 10 * UNIT_BYTES, base, [])
                roots.add(save_.finish(FACTS).roots["disk"])
        assert len(roots) == 2


class TestDeviceState:
    def test_a_length_that_is_no_multiple_of_a_unit_comes_back(self, backend):
        state = b"device" * 1000
        with writer(backend) as save_:
            save_.add_image("devices", len(state), None, [(np.arange(2), state)])
            saved = save_.finish(FACTS)
        assert restore(backend, saved.manifest.manifest_id, "devices").tobytes()[: len(state)] == state

    def test_another_length_than_the_parents_must_be_given_whole(self, backend):
        with writer(backend) as save_:
            save_.add_image("devices", 5000, None, [(np.arange(2), b"a" * 5000)])
            first = save_.finish(FACTS)
        with writer(backend, first.manifest) as save_, pytest.raises(ValueError, match="give it whole"):
            save_.add_image("devices", 9000, None, [])
        with writer(backend, first.manifest) as save_:
            save_.add_image("devices", 9000, None, [(np.arange(3), b"b" * 9000)], whole=True)
            second = save_.finish(FACTS)
        assert restore(backend, second.manifest.manifest_id, "devices").tobytes()[:9000] == b"b" * 9000


@pytest.mark.parametrize(
    ("name", "length", "base"),
    [("swap", 4096, None), ("memory", 0, None), ("memory", -1, None), ("memory", 1 << 60, None), ("disk", 4096, "file x")],
)
def test_an_image_that_cannot_be_is_refused(backend, name, length, base):
    with writer(backend) as save_, pytest.raises(ValueError, match="image"):
        save_.add_image(name, length, base, [])


def test_an_image_is_added_once_and_special_units_lie_in_it(backend):
    with writer(backend) as save_:
        save_.add_image("memory", 8192, None, [])
        with pytest.raises(ValueError, match="already"):
            save_.add_image("memory", 8192, None, [])
        with pytest.raises(ValueError, match="in the image"):
            save_.add_image("disk", 8192, None, [], zero_units=np.array([2]))
        with pytest.raises(ValueError, match="no base"):
            save_.add_image("devices", 8192, None, [], base_units=np.array([0]))


def test_an_index_without_the_parents_packs_is_refused(backend):
    first = save(backend, None, content(5))
    with pytest.raises(ValueError, match="load_index"):
        CheckpointWriter(backend, KEYS, ACCOUNT, first.manifest, UnitIndex())


def test_packs_of_another_lineage_in_the_index_are_used_and_named(backend):
    memory = content(80)
    other = save(backend, None, memory)
    index = load_index(backend, KEYS, ACCOUNT, other.manifest)
    with CheckpointWriter(backend, KEYS, ACCOUNT, None, index) as save_:
        save_.add_image("memory", memory.size, None, pages(memory, range(80)))
        saved = save_.finish(FACTS)
    assert (saved.unique_bytes, saved.packs) == (0, other.packs)
    assert np.array_equal(restore(backend, saved.manifest.manifest_id), memory)


def test_what_a_failed_save_stored_is_not_relied_on_by_the_next(backend):
    memory = content(100)
    index = load_index(backend, KEYS, ACCOUNT, None)

    def fail_at_manifest(name):
        if name == "manifest_verified":
            raise RuntimeError("dies here")

    with CheckpointWriter(backend, KEYS, ACCOUNT, None, index, step=fail_at_manifest) as save_:
        save_.add_image("memory", memory.size, None, pages(memory, range(100)))
        with pytest.raises(RuntimeError, match="dies here"):
            save_.finish(FACTS)
    orphans = {listed.key for listed in backend.list("")}
    assert len(index) == 0
    with CheckpointWriter(backend, KEYS, ACCOUNT, None, index) as save_:
        save_.add_image("memory", memory.size, None, pages(memory, range(100)))
        saved = save_.finish(FACTS)
    assert not any(pack in key for key in orphans for pack in saved.packs)


def test_a_plan_teaches_the_index_after_its_commit(backend):
    memory = content(60)
    index = UnitIndex()
    first = save(backend, None, memory)
    first.teach(index)
    with CheckpointWriter(backend, KEYS, ACCOUNT, first.manifest, index) as save_:
        save_.add_image("memory", memory.size, None, pages(memory, range(60)))
        assert save_.finish(FACTS).unique_bytes == 0


@pytest.mark.parametrize("failing", ["pack_verified", "pack_written", "packs_written", "packs.objects_synced"])
def test_a_save_that_fails_before_its_packs_are_named_leaves_no_object(backend, failing):
    first = save(backend, None, content(30))
    before = sorted(listed.key for listed in backend.list(""))

    def step(name):
        if name == failing:
            raise NoSpaceError("full")

    with pytest.raises(NoSpaceError, match="full"):
        save(backend, first.manifest, content(30, 9), step=step)
    assert sorted(listed.key for listed in backend.list("")) == before
    assert list((backend.root / "staging").iterdir()) == []


def test_a_pack_that_fails_stops_the_save_while_pages_still_come(backend):
    given = []

    def endless():
        for number in range(100):
            given.append(number)
            part = content(PACK_UNITS, number)
            yield np.arange(number * PACK_UNITS, (number + 1) * PACK_UNITS), part.tobytes()

    def step(name):
        raise NoSpaceError("full")

    with writer(backend, step=step) as save_, pytest.raises(NoSpaceError, match="full"):
        save_.add_image("memory", 100 * PACK_UNITS * UNIT_BYTES, None, endless())
    assert len(given) < 8


def test_a_compressor_that_errs_publishes_nothing(backend, monkeypatch):
    monkeypatch.setattr(packs, "compress_all", lambda pieces: [compress(bytes(len(plain))) for plain in pieces])
    with pytest.raises(IntegrityError, match="other content than was hashed"):
        save(backend, None, content(10))
    assert list(backend.list("")) == []


class TestLineOfManifests:
    def line(self, backend, generations):
        memory, saved = content(200), None
        for generation in range(generations):
            memory[generation % 200] = (generation + 1) % 256
            saved = save(backend, saved.manifest if saved else None, memory, [generation % 200] if saved else None)
            yield memory.copy(), saved

    def test_a_load_reads_at_most_eight_manifests(self, backend, monkeypatch):
        read: list[str] = []
        stream = LocalBackend.stream

        def noted_stream(self, key):
            read.append(key)
            return stream(self, key)

        monkeypatch.setattr(LocalBackend, "stream", noted_stream)
        most = 0
        for memory, saved in self.line(backend, 20):
            read.clear()
            assert np.array_equal(restore(backend, saved.manifest.manifest_id), memory)
            most = max(most, len(read))
        assert most == 8

    def test_a_manifest_names_those_it_builds_on(self, backend):
        saves = [saved for _, saved in self.line(backend, 9)]
        ids = [saved.manifest.manifest_id for saved in saves]
        assert saves[7].manifest.ancestors == tuple(reversed(ids[:7]))
        assert saves[8].manifest.ancestors == ()

    def test_a_full_manifest_forgets_packs_that_are_out_of_use(self, backend):
        memory = content(20)
        saved = save(backend, None, memory)
        first_packs = saved.packs
        for seed in range(1, 9):
            saved = save(backend, saved.manifest, content(20, seed))
        assert saved.manifest.ancestors == ()
        assert set(saved.manifest.packs) == set(saved.packs)
        assert set(first_packs).isdisjoint(saved.packs)

    def test_a_standalone_manifest_needs_no_other(self, backend):
        memory = content(20)
        first = save(backend, None, memory)
        memory[1] = 5
        with writer(backend, first.manifest) as save_:
            save_.add_image("memory", memory.size, None, pages(memory, [1]))
            fork = save_.finish(FACTS, standalone=True)
        backend.delete(f"accounts/{ACCOUNT}/manifests/{first.manifest.manifest_id}")
        assert fork.manifest.ancestors == ()
        assert np.array_equal(restore(backend, fork.manifest.manifest_id), memory)
