"""A rewritten pack holds the units that are needed, under their old numbers, and nothing of the others; whatever else is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints_app.store import IntegrityError, Kind, LocalBackend, ObjectExistsError, load_pack_index, object_key
from checkpoints_app.store.backends.local import path_of
from checkpoints_app.store.bitmap import all_units
from checkpoints_app.store.ids import UNIT_BYTES
from checkpoints_app.store.index import UnitIndex
from checkpoints_app.store.rewrite import rewrite_pack
from checkpoints_app.store.scan import read_good_units, scan_pack
from checkpoints_app.store.seal import Sealer
from tests.store_kit import ACCOUNT, KEYS, content, quick_directory, restore, save

UNITS = 100
IMAGE = content(UNITS, 5)


@pytest.fixture
def backend(tmp_path):
    return LocalBackend(tmp_path)


def new_pack(backend):
    saved = save(backend, None, IMAGE)
    return saved, load_pack_index(backend, KEYS, ACCOUNT, saved.packs[0])


def units(*numbers):
    found = np.zeros(UNITS, np.bool_)
    found[list(numbers)] = True
    return found


def path(backend, index, generation):
    return path_of(backend.root, object_key(ACCOUNT, Kind.PACK, index.pack_id, generation))


def rewritten(backend, index, live, generation=None, **options):
    made = rewrite_pack(backend, KEYS, ACCOUNT, index, generation or index.generation + 1, live, **options)
    return made, load_pack_index(backend, KEYS, ACCOUNT, index.pack_id, made.generation)


def scan(backend, index):
    return scan_pack(backend, KEYS, ACCOUNT, index.pack_id, index.generation, UNITS)


masks = st.lists(st.sets(st.integers(0, UNITS - 1), min_size=1), min_size=1, max_size=4)


@settings(max_examples=30, deadline=None)
@given(shrinking=masks)
def test_after_any_line_of_rewrites_the_units_left_are_those_that_were(shrinking):
    with quick_directory() as directory:
        backend = LocalBackend(directory)
        _, index = new_pack(backend)
        live = all_units(UNITS)
        for wanted in shrinking:
            live = live & units(*wanted) if (live & units(*wanted)).any() else live
            _, index = rewritten(backend, index, live)
        numbers = np.flatnonzero(live)
        found, good = read_good_units(backend, KEYS, ACCOUNT, index, numbers)
        assert good.all()
        assert np.array_equal(found, IMAGE[numbers])
        assert index.layout.numbers.tolist() == numbers.tolist()


def test_dead_units_are_gone_from_frames_and_table(backend):
    _, index = new_pack(backend)
    _, after = rewritten(backend, index, units(3, 50))
    dead = np.setdiff1d(np.arange(UNITS), [3, 50])
    assert len(after.ids) == 2
    assert not after.ids_by_number[dead].any()
    assert after.positions_of(dead).tolist() == [-1] * len(dead)
    assert path(backend, index, 1).stat().st_size < 3 * UNIT_BYTES


def test_a_checkpoint_that_needs_the_units_left_restores_from_the_next_generation(backend):
    first = save(backend, None, IMAGE)
    second_image = IMAGE.copy()
    second_image[10:20] = content(10, 6)
    second = save(backend, first.manifest, second_image, range(10, 20))
    needed = np.flatnonzero(dict(second.manifest.needed_units())[first.packs[0]])
    index = load_pack_index(backend, KEYS, ACCOUNT, first.packs[0])
    rewritten(backend, index, units(*needed))
    backend.delete(object_key(ACCOUNT, Kind.PACK, index.pack_id))
    assert np.array_equal(restore(backend, second.manifest.manifest_id), second_image)
    with pytest.raises(IntegrityError, match="places that its packs do not have"):
        restore(backend, first.manifest.manifest_id)


def test_dead_units_are_not_offered_for_dedup(backend):
    _, index = new_pack(backend)
    _, after = rewritten(backend, index, units(3))
    found = UnitIndex()
    found.add_pack(after.pack_id, after.ids_by_number)
    assert (found.lookup(index.ids) >= 0).tolist() == units(3).tolist()
    assert (found.lookup(np.zeros((1, 4), np.uint64)) >= 0).tolist() == [False]


def test_a_generation_is_written_once_and_only_forward(backend):
    _, index = new_pack(backend)
    _, after = rewritten(backend, index, units(1, 2))
    with pytest.raises(ObjectExistsError):
        rewritten(backend, index, units(1))
    with pytest.raises(ValueError, match="later generation"):
        rewrite_pack(backend, KEYS, ACCOUNT, after, 1, units(1))
    with pytest.raises(ValueError, match="does not have"):
        rewritten(backend, after, units(5))


def test_two_attempts_at_one_generation_share_no_key():
    pack_id = "ab" * 32
    one, two = (Sealer.of_generation(KEYS, ACCOUNT, pack_id, 1) for _ in range(2))
    assert one.rewriting != two.rewriting


def test_a_flipped_bit_anywhere_in_a_rewritten_pack_is_refused_or_costs_only_its_units(backend):
    _, index = new_pack(backend)
    _, after = rewritten(backend, index, units(*range(0, UNITS, 2)))
    file = path(backend, after, 1)
    whole = file.read_bytes()
    table_end = int(after.offsets[0])
    for at in [*range(84), *range(84, len(whole), 911), len(whole) - 1]:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        found = scan(backend, after)
        assert not found.whole
        if at >= table_end:
            frame = int(np.searchsorted(after.offsets, at, side="right")) - 1
            first, count = after.frame_span(frame)
            lost = after.layout.numbers[first : first + count]
            assert np.flatnonzero(~found.good & units(*range(0, UNITS, 2))).tolist() == lost.tolist()
        else:
            assert not found.good.any()
            with pytest.raises(IntegrityError, match=after.pack_id):
                load_pack_index(backend, KEYS, ACCOUNT, after.pack_id, 1)


@pytest.mark.parametrize("keep", [0, 30, 90, 5000, 60000, 99999])
def test_a_cut_object_keeps_the_frames_before_the_cut(backend, keep):
    _, index = new_pack(backend)
    file = path(backend, index, 0)
    whole = file.read_bytes()
    file.write_bytes(whole[:keep])
    found = scan(backend, index)
    frames_left = int(np.searchsorted(index.offsets, keep, side="right")) - 1 if keep >= index.offsets[0] else 0
    assert not found.whole
    assert int(found.good.sum()) == int(index.first_units[max(frames_left, 0)])


def test_one_generation_under_the_name_of_another_is_refused(backend):
    _, index = new_pack(backend)
    _, after = rewritten(backend, index, units(1, 2, 3))
    rewritten(backend, after, units(1, 2))
    path(backend, index, 2).write_bytes(path(backend, index, 1).read_bytes())
    with pytest.raises(IntegrityError):
        load_pack_index(backend, KEYS, ACCOUNT, index.pack_id, 2)
    path(backend, index, 1).write_bytes(path(backend, index, 0).read_bytes())
    with pytest.raises(IntegrityError):
        load_pack_index(backend, KEYS, ACCOUNT, index.pack_id, 1)


def damage_frame(backend, index, frame):
    file = path(backend, index, index.generation)
    stored = bytearray(file.read_bytes())
    stored[int(index.offsets[frame]) + 5] ^= 1
    file.write_bytes(stored)


def test_a_damaged_unit_is_kept_as_lost_and_healed_by_the_same_content(backend):
    _, index = new_pack(backend)
    damage_frame(backend, index, 1)
    made, after = rewritten(backend, index, units(3, 40, 41, 99))
    assert (np.flatnonzero(made.lost).tolist(), np.flatnonzero(made.units).tolist()) == ([40, 41], [3, 99])
    assert not scan(backend, after).good[[40, 41]].any()
    healed, last = rewritten(backend, after, units(3, 40, 41), replacements={40: IMAGE[40].tobytes(), 41: IMAGE[40].tobytes()})
    assert np.flatnonzero(healed.lost).tolist() == [41]
    found, good = read_good_units(backend, KEYS, ACCOUNT, last, np.array([3, 40, 41]))
    assert good.tolist() == [True, True, False]
    assert np.array_equal(found[:2], IMAGE[[3, 40]])


def test_a_pack_of_which_every_needed_unit_is_lost_still_lists_them(backend):
    _, index = new_pack(backend)
    damage_frame(backend, index, 1)
    made, after = rewritten(backend, index, units(40))
    assert not made.units.any()
    assert after.layout.lost.tolist() == [40]
    assert np.array_equal(after.layout.lost_ids[0], index.ids[40])


def test_a_missing_object_has_no_good_unit_and_says_so(backend):
    _, index = new_pack(backend)
    path(backend, index, 0).unlink()
    found = scan(backend, index)
    assert (found.index, found.good.any()) == (None, False)
    assert index.pack_id in found.problem


def test_a_good_pack_is_whole_and_every_byte_of_it_was_read(backend):
    _, index = new_pack(backend)
    found = scan(backend, index)
    assert found.whole
    assert found.good.all()
    assert found.bytes_read == index.stored_bytes


def test_a_restore_whose_pack_moves_on_while_it_reads_goes_on_in_the_next_generation(backend):
    saved, index = new_pack(backend)
    reads = []

    class Moving(LocalBackend):
        def read(self, key, offset, length):
            reads.append(key)
            if len(reads) == 1:
                rewritten(backend, index, all_units(UNITS))
                backend.delete(object_key(ACCOUNT, Kind.PACK, index.pack_id))
            return super().read(key, offset, length)

    assert np.array_equal(restore(Moving(backend.root), saved.manifest.manifest_id), IMAGE)
    assert reads[0].endswith(index.pack_id)
    assert reads[-1].endswith(f"{index.pack_id}-1")


def test_a_restore_refuses_a_next_generation_that_lacks_what_it_needs(backend):
    saved, index = new_pack(backend)

    class Moving(LocalBackend):
        def read(self, key, offset, length):
            if key.endswith(index.pack_id):
                rewritten(backend, index, units(1))
                backend.delete(key)
            return super().read(key, offset, length)

    with pytest.raises(IntegrityError, match="lists other units"):
        restore(Moving(backend.root), saved.manifest.manifest_id)
