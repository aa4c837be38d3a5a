"""Packs that do not say any more what they held: what can be had of them, and what cannot."""

from pathlib import Path

import pytest

from checkpoints_app.models import Checkpoint, Pack, PackEdge
from checkpoints_app.services import erase, heal, integrity, key, rebuild, scrub, storage
from checkpoints_app.store import Kind, load_pack_index, object_key
from tests.store_kit import Content, content
from tests.support.shelf import PACK_UNITS, UNITS, Shelf

IMAGE = content(UNITS, 1)


def changed(image: Content, start: int, count: int, seed: int) -> Content:
    after = image.copy()
    after[start : start + count] = content(count, seed)
    return after


def packs_of(row: Checkpoint) -> list[Pack]:
    return list(Pack.objects.filter(edges__checkpoint=row).order_by("created_at", "id"))


def path(shelf: Shelf, row: Pack, generation: int | None = None) -> Path:
    return shelf.path(object_key(shelf.account.id, Kind.PACK, row.id, row.generation if generation is None else generation))


def damage(shelf: Shelf, row: Pack, how: str) -> None:
    file = path(shelf, row)
    if how == "lost":
        file.unlink()
        return
    stored = bytearray(file.read_bytes())
    stored[60 if how == "table" else 3] ^= 1
    file.write_bytes(stored)


def state(row: Checkpoint) -> str:
    return Checkpoint.objects.get(id=row.id).state


@pytest.mark.parametrize("how", ["lost", "table", "header"])
def test_a_pack_that_tells_nothing_heals_when_the_same_moment_is_saved_again(shelf: Shelf, how: str) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    for one in packs_of(row)[:2]:
        damage(shelf, one, how)
    scrub.run(everything=True)
    assert state(row) == "corrupt"
    again = shelf.save(shelf.session(), IMAGE)
    done = scrub.run()
    assert len(done.report["healed"]) == 2
    shelf.assert_whole(row, again)
    shelf.assert_exact()
    erase.erase_checkpoint(again)
    shelf.assert_whole(row)
    shelf.assert_exact()


def test_it_heals_for_all_that_need_it_where_the_one_that_was_saved_again_needs_as_much(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 2, 3, 2), parent=first)
    damage(shelf, packs_of(first)[0], "lost")
    damage(shelf, packs_of(first)[1], "table")
    scrub.run(everything=True)
    again = shelf.save(shelf.session(), IMAGE)
    scrub.run()
    shelf.assert_whole(first, second, again)
    shelf.assert_exact()


def test_a_pack_that_was_rewritten_before_heals_as_well(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 2, 3, 2), parent=first)
    erase.erase_checkpoint(first)
    rewritten = Pack.objects.get(generation=1)
    damage(shelf, rewritten, "table")
    scrub.run(everything=True)
    again = shelf.save(shelf.session(), shelf.contents[second.id])
    scrub.run()
    shelf.assert_whole(second, again)
    shelf.assert_exact()
    assert Pack.objects.get(id=rewritten.id).generation == 2


def test_what_only_another_moment_needs_cannot_be_had_and_then_nothing_is_touched(shelf: Shelf) -> None:
    """Content that is equal here and there does not prove what the rest was."""
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 2, 3, 2), parent=first)
    one = needing_part(first)
    damage(shelf, one, "table")
    before = path(shelf, one).read_bytes()
    scrub.run(everything=True)
    shelf.save(shelf.session(), shelf.contents[second.id])  # the first needs units that this one has not
    scrub.run()
    assert [state(first), state(second)] == ["corrupt", "corrupt"]
    assert path(shelf, one).read_bytes() == before


@pytest.mark.parametrize("how", ["lost", "table"])
def test_a_rewrite_that_died_is_finished_from_what_it_had_written_where_the_old_object_tells_nothing(shelf: Shelf, how: str) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 2, 3, 2), parent=first)

    class Died(BaseException):
        pass

    def die(name: str) -> None:
        if name == "rewrite_durable":
            raise Died

    with pytest.raises(Died):
        erase.erase_checkpoint(first, step=die)
    damage(shelf, Pack.objects.get(state="rewriting", reserved_generation=1), how)
    erase.erase_checkpoint(first)
    shelf.assert_whole(second)
    shelf.assert_exact()


def test_many_damaged_units_are_read_from_where_they_are_good_in_few_reads(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    one = packs_of(row)[0]
    file = path(shelf, one)
    file.write_bytes(file.read_bytes()[: -PACK_UNITS * 2048])  # its frames are gone
    scrub.run(everything=True)
    shelf.save(shelf.session(), IMAGE)
    right, reads = storage.backend().read, list[str]()

    def counted(key: str, offset: int, length: int) -> bytes:
        reads.append(key)
        return right(key, offset, length)

    monkeypatch.setattr(storage.backend(), "read", counted)
    assert heal.heal(Pack.objects.get(id=one.id)) == PACK_UNITS
    elsewhere = [key for key in reads if one.id not in key]
    monkeypatch.undo()
    scrub.run(everything=True)
    shelf.assert_whole(row)
    assert 1 <= len([key for key in elsewhere if "/packs/" in key]) <= 2


def test_the_search_for_lost_content_ends_with_the_time_of_the_run(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    for one in packs_of(row):
        damage(shelf, one, "lost")
    scrub.run(everything=True)
    shelf.save(shelf.session(), IMAGE)
    tried = list[str]()

    def try_(one: Pack) -> int:
        tried.append(one.id)
        return 0

    monkeypatch.setattr(heal, "heal", try_)
    scrub.run(seconds=0)
    assert len(tried) <= 1
    scrub.run()
    assert len(tried) >= 3


def test_a_checkpoint_of_which_something_is_known_to_be_bad_is_not_read_again_for_each_of_its_good_packs(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    damage(shelf, packs_of(row)[0], "table")
    scrub.run(everything=True)
    read = list[str]()
    right = integrity._reads

    def noted(one: Checkpoint) -> bool:
        read.append(one.id)
        return right(one)

    monkeypatch.setattr(integrity, "_reads", noted)
    scrub.run(everything=True)
    assert read == []
    assert state(row) == "corrupt"


@pytest.mark.parametrize("by", ["erasure", "rebuild"])
def test_units_that_were_lost_leave_their_pack_with_the_last_checkpoint_that_needed_them(shelf: Shelf, by: str) -> None:
    """A rewritten pack lists what is lost, so that it may heal; what nobody needs any more is not even listed."""
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 2, 1, 2), parent=first)
    third = shelf.save(session, changed(shelf.contents[second.id], 3, 1, 3), parent=second)
    one = needing_part(first)
    stored = bytearray(path(shelf, one).read_bytes())
    stored[-20] ^= 1
    path(shelf, one).write_bytes(stored)
    erase.erase_checkpoint(first)
    assert len(listed_as_lost(shelf, one)) == PACK_UNITS - 1
    if by == "erasure":
        erase.erase_checkpoint(second)
    else:  # onto a database that has forgotten the second
        Checkpoint.objects.filter(id=second.id).update(state="erased")
        PackEdge.objects.filter(pack=one).delete()
        Pack.objects.filter(id=one.id).delete()
        rebuild.rebuild()
    assert len(listed_as_lost(shelf, one)) == PACK_UNITS - 2
    again = shelf.save(shelf.session(), shelf.contents[third.id])
    scrub.run(everything=True)
    shelf.assert_whole(third, again)


def listed_as_lost(shelf: Shelf, row: Pack) -> list[int]:
    row = Pack.objects.get(id=row.id)
    index = load_pack_index(storage.backend(), key.keys_to_read(row.account_id), row.account_id, row.id, row.generation)
    assert len(index.layout.numbers) == 0
    return list(index.layout.lost)


def needing_part(row: Checkpoint) -> Pack:
    """The pack of which another checkpoint needs some units."""
    (found,) = (one for one in packs_of(row) if len(set(map(bytes, one.edges.values_list("units", flat=True)))) > 1)
    return found
