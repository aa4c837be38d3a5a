"""The scrub: what is bad is found, costs exactly the checkpoints that need it, is never relied on, and heals by the same content."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db.models import F
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint, Manifest, Pack, Sweep
from checkpoints_app.services import erase, scrub, storage, verify
from checkpoints_app.store import Kind, UnavailableError, load_pack_index, object_key
from sessions_app.services import locks
from tests.store_kit import content
from tests.support.shelf import PACK_UNITS, UNITS, Shelf
from tests.support.threads import at_once

IMAGE = content(UNITS, 1)


def changed(image, start, count, seed):
    after = image.copy()
    after[start : start + count] = content(count, seed)
    return after


def packs_of(row: Checkpoint) -> list[Pack]:
    """In the order in which the save made them: each has the image's next units."""
    from checkpoints_app.services import key
    from checkpoints_app.store import load_manifest

    manifest = load_manifest(storage.backend(), key.keys_to_read(row.account_id), row.account_id, row.manifest_id)
    return [Pack.objects.get(id=pack_id) for pack_id in manifest.referenced_packs]


def path(shelf: Shelf, pack: Pack):
    return shelf.path(object_key(shelf.account.id, Kind.PACK, pack.id, pack.generation))


def flip(file, at: int) -> None:
    stored = bytearray(file.read_bytes())
    stored[at] ^= 1
    file.write_bytes(stored)


def damage_last_frame(shelf: Shelf, pack: Pack) -> None:
    flip(path(shelf, pack), -20)


def states(*rows: Checkpoint) -> list[str]:
    return [Checkpoint.objects.get(id=row.id).state for row in rows]


def test_a_whole_store_is_read_whole_and_nothing_is_marked(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    done = scrub.run(everything=True)
    assert done.objects_done == 4
    assert done.bytes_done == sum(Pack.objects.values_list("stored_bytes", flat=True)) + Manifest.objects.get().stored_bytes
    assert done.report == {"bad": [], "corrupted": [], "healed": [], "not_judged": 0}
    shelf.assert_whole(row)


@pytest.mark.parametrize("damage", ["frame", "table", "cut", "missing"])
def test_damage_costs_exactly_the_checkpoints_that_need_it(shelf: Shelf, damage: str) -> None:
    """Of two checkpoints of a line, one needs the damaged pack and the other wrote those units anew."""
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 0, PACK_UNITS, 2), parent=first)
    file = path(shelf, packs_of(first)[0])
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-5])
    else:
        flip(file, -20 if damage == "frame" else 60)
    done = scrub.run(everything=True)
    assert states(first, second) == ["corrupt", "published"]
    assert done.report["corrupted"] == [first.id]
    shelf.assert_whole(second)
    failure = Checkpoint.objects.get(id=first.id).failure
    assert failure is not None
    assert packs_of(first)[0].id in failure["message"]
    assert list(session.events.order_by("-number").values_list("type", flat=True)[:1]) == ["checkpoint.corrupt"]


def test_a_manifest_that_is_damaged_costs_its_checkpoint_and_those_that_build_on_it(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 0, 3, 2), parent=first)
    third = shelf.save(shelf.session(), IMAGE)
    flip(shelf.path(object_key(shelf.account.id, Kind.MANIFEST, first.manifest_id)), -20)
    scrub.run(everything=True)
    assert states(first, second, third) == ["corrupt", "corrupt", "published"]
    flip(shelf.path(object_key(shelf.account.id, Kind.MANIFEST, first.manifest_id)), -20)
    scrub.run(everything=True)
    shelf.assert_whole(first, second, third)


def test_the_next_save_of_the_same_content_stores_it_again_and_the_sweep_heals_with_it(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    damage_last_frame(shelf, packs_of(row)[0])
    scrub.run(everything=True)
    assert states(row) == ["corrupt"]
    again = shelf.save(shelf.session(), IMAGE)
    assert set(packs_of(again)) & {packs_of(row)[0]} == set()
    shelf.assert_whole(again)
    done = scrub.run()  # nothing is due: only what was bad is looked at
    assert done.report["healed"] != []
    shelf.assert_whole(row, again)
    assert packs_of(row)[0].generation == 1
    shelf.assert_exact()


def test_a_pack_of_a_wrong_size_heals_by_itself_as_its_units_are_good(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    file = path(shelf, packs_of(row)[0])
    file.write_bytes(file.read_bytes() + b"x")
    scrub.run(everything=True)
    shelf.assert_whole(row)
    shelf.assert_exact()


def test_content_that_nobody_has_any_more_stays_refused_and_its_bytes_stay(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    pack = packs_of(row)[0]
    damage_last_frame(shelf, pack)
    damaged = path(shelf, pack).read_bytes()
    scrub.run(everything=True)
    shelf.save(shelf.session(), content(UNITS, 7))
    scrub.run(everything=True)
    assert states(row) == ["corrupt"]
    assert path(shelf, pack).read_bytes() == damaged


def test_a_delta_to_a_checkpoint_that_does_not_need_the_bad_units_may_be_saved(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 0, 8, 2), parent=first)
    erase.erase_checkpoint(shelf.save(session, content(UNITS, 3)))
    damage_last_frame(shelf, packs_of(second)[-1])
    scrub.run(everything=True)
    assert states(first, second) == ["published", "corrupt"]
    third = shelf.save(session, changed(IMAGE, 0, 8, 2), parent=first)
    shelf.assert_whole(first, third)


def test_erasing_a_checkpoint_with_bad_units_leaves_its_neighbours_exactly(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 0, PACK_UNITS, 2), parent=first)
    damage_last_frame(shelf, packs_of(first)[0])
    scrub.run(everything=True)
    erase.erase_checkpoint(first)
    shelf.assert_whole(second)
    shelf.assert_exact()


@pytest.mark.parametrize("damage", ["frame", "table", "missing"])
def test_erasing_a_neighbour_of_a_damaged_pack_removes_its_own_units_and_keeps_the_verdict(shelf: Shelf, damage: str) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 2, 3, 2), parent=first)  # needs most of the first pack
    pack = packs_of(first)[0]
    if damage == "missing":
        path(shelf, pack).unlink()
    else:
        flip(path(shelf, pack), -20 if damage == "frame" else 60)
    scrub.run(everything=True)
    erase.erase_checkpoint(first)
    assert states(first, second) == ["erased", "corrupt"]
    left = [name for name in shelf.object_names() if name.word == "pack" and name.object_id == pack.id]
    if damage == "frame":
        assert [name.generation for name in left] == [1]
        from checkpoints_app.services import key

        index = load_pack_index(storage.backend(), key.keys_to_read(shelf.account.id), shelf.account.id, pack.id, 1)
        assert {2, 3, 4}.isdisjoint({*index.layout.numbers.tolist(), *index.layout.lost.tolist()})
    else:
        assert left == []
    erase.erase_checkpoint(second)
    assert [name.word for name in shelf.object_names()] == ["key"]


def test_a_store_that_does_not_answer_judges_nothing(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    row = shelf.save(shelf.session(), IMAGE)

    def broken(*_: object) -> bytes:
        raise UnavailableError("no answer")

    for name in ("read", "head"):
        with monkeypatch.context() as patch:
            patch.setattr(storage.backend(), name, broken)
            with pytest.raises(UnavailableError):
                scrub.run(everything=True)
        assert "no answer" in Sweep.objects.get(name="scrub").error
    shelf.assert_whole(row)


def test_a_store_that_is_not_mounted_is_not_a_store_in_which_everything_is_missing(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 2, 3, 2), parent=first)
    accounts = shelf.path("accounts/x").parents[1]
    accounts.rename(accounts.with_name("elsewhere"))
    for act in (lambda: scrub.run(everything=True), lambda: erase.erase_checkpoint(first)):
        with pytest.raises(UnavailableError, match="mounted"):
            act()
    accounts.with_name("elsewhere").rename(accounts)
    shelf.assert_whole(second)
    erase.erase_checkpoint(first)
    shelf.assert_exact()


def test_the_least_recently_verified_come_first_and_a_budget_ends_the_run(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    order = [pack.id for pack in packs_of(row)]
    for days, pack_id in zip((3, 9, 6), order, strict=True):
        Pack.objects.filter(id=pack_id).update(verified_at=Now() - timedelta(days=days))
    done = scrub.run(everything=True, budget_bytes=1)
    assert done.objects_done == 1
    verified = Pack.objects.filter(verified_at__gt=Now() - timedelta(minutes=5)).values_list("id", flat=True)
    assert list(verified) == [order[1]]


def test_runs_within_a_budget_reach_everything(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    Pack.objects.update(verified_at=F("verified_at") - timedelta(days=25))
    Manifest.objects.update(verified_at=F("verified_at") - timedelta(days=25))
    runs = 0
    while scrub.run(budget_bytes=1).objects_done:
        runs += 1
    assert runs == 4
    assert not Pack.objects.filter(verified_at__lt=Now() - timedelta(days=1)).exists()


def test_what_was_verified_lately_is_not_due(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    assert scrub.run().objects_done == 0
    assert not scrub.behind()
    Pack.objects.update(verified_at=Now() - timedelta(days=31))
    assert scrub.behind()


def test_one_scrub_at_a_time(shelf: Shelf) -> None:
    def run(_: int) -> str:
        with pytest.raises(locks.Busy):
            scrub.run()
        return "busy"

    with locks.exclusive("sweep/scrub", 0):
        assert at_once(1, run) == ["busy"]


def test_a_reader_that_was_refused_has_the_object_judged_so_that_no_save_relies_on_it(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    other = shelf.save(shelf.session(), IMAGE)
    damage_last_frame(shelf, packs_of(row)[0])
    with pytest.raises(Exception, match="not authentic") as caught:
        shelf.restore(row)
    verify.refused(row, caught.value, source="test")
    assert states(row, other) == ["corrupt", "corrupt"]
    shelf.assert_whole(shelf.save(shelf.session(), IMAGE))


def test_the_command_tells_what_is_bad_and_exits_with_one(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    call_command("scrub", "--all")
    assert "4 objects" in capsys.readouterr().out
    damage_last_frame(shelf, packs_of(row)[0])
    with pytest.raises(SystemExit) as ended:
        call_command("scrub", "--budget-mib", "100")
    assert ended.value.code == 1
    out = capsys.readouterr().out
    assert f"corrupted: {row.id}" in out
    assert "put it back" in out


def test_an_account_whose_key_does_not_open_is_not_judged(shelf: Shelf, settings) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    settings.KEEPSTATE_MASTER_KEY = bytes(32)
    assert scrub.run(everything=True).report["not_judged"] == 4
    assert states(row) == ["published"]


def test_a_report_names_so_many_at_most_whatever_is_bad(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [shelf.save(shelf.session(), content(UNITS, seed)) for seed in (1, 2)]
    for row in rows:
        damage_last_frame(shelf, packs_of(row)[0])
    monkeypatch.setattr(scrub, "_TOLD", 1)
    told = scrub.run(everything=True).report
    assert (len(told["bad"]), len(told["corrupted"])) == (1, 1)
    assert states(*rows) == ["corrupt", "corrupt"]
