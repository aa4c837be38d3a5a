"""The store and the master key alone restore the database's store tables."""

import numpy as np
import pytest
from django.core.management import call_command
from django.db import transaction

from checkpoints_app.models import AccountKey, Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services import erase, rebuild, storage
from checkpoints_app.store import Kind, UnavailableError, object_key
from sessions_app.models import Account, ApiToken, Session, SessionEvent
from sessions_app.services import event, steps
from tests.store_kit import content
from tests.support.kept import without_rules
from tests.support.shelf import UNITS, Shelf

IMAGE = content(UNITS, 1)
TABLES = (PackEdge, ManifestEdge, Checkpoint, Pack, Manifest, AccountKey)


def changed(image, start, count, seed):
    after = image.copy()
    after[start : start + count] = content(count, seed)
    return after


def forget_everything() -> None:
    with without_rules():
        for model in (*TABLES, SessionEvent, Session, ApiToken, Account):
            model.objects.all().delete()


def told() -> dict[str, list[tuple[object, ...]]]:
    """What the store tables say, as far as the store can know it."""
    return {
        "packs": sorted(Pack.objects.values_list("id", "account_id", "state", "generation", "stored_bytes", "unit_count")),
        "edges": sorted((one.checkpoint_id, one.pack_id, bytes(one.units)) for one in PackEdge.objects.all()),
        "manifests": sorted(Manifest.objects.values_list("id", "account_id", "state", "stored_bytes")),
        "manifest edges": sorted(ManifestEdge.objects.values_list("checkpoint_id", "manifest_id")),
        "checkpoints": sorted(
            Checkpoint.objects.exclude(state="erased").values_list(
                "id",
                "account_id",
                "session_id",
                "state",
                "parent_id",
                "manifest_id",
                "content_digest",
                "memory_root",
                "source_epoch",
                "event_watermark",
                "logical_bytes",
                "pin_id",
                "created_at",
            )
        ),
        "keys": [(row.account_id, bytes(row.wrapped), row.generation) for row in AccountKey.objects.all()],
    }


def history(shelf: Shelf) -> list[Checkpoint]:
    """A line, a fork, an erased parent: rewritten packs and a manifest that only descendants need."""
    session, fork = shelf.session(), shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 4, 20, 2), parent=first)
    third = shelf.save(session, changed(shelf.contents[second.id], 30, 5, 3), parent=second)
    forked = shelf.save(fork, changed(shelf.contents[second.id], 0, 9, 4), parent=second)
    erase.erase_checkpoint(first)
    return [second, third, forked]


def test_onto_an_empty_database_everything_comes_back_and_reads(shelf: Shelf) -> None:
    rows = history(shelf)
    before = told()
    forget_everything()
    done = rebuild.rebuild()
    assert done.problems == []
    after = told()
    before["checkpoints"] = [(*row[:4], None if row[0] == rows[0].id else row[4], *row[5:]) for row in before["checkpoints"]]
    assert after == before  # but for a parent that was erased
    shelf.account = Account.objects.get()
    shelf.assert_whole(*rows)
    shelf.assert_exact()
    heads = {(one.runtime_state, one.head_checkpoint_id) for one in Session.objects.all()}
    assert heads == {("parked", rows[1].id), ("parked", rows[2].id)}


def test_what_is_lost_of_a_history_is_told_in_it_and_the_work_may_go_on(shelf: Shelf) -> None:
    session = shelf.session()
    with transaction.atomic():
        for _ in range(3):
            event.append(session.id, "test", source="test")
    session.refresh_from_db()
    newest = shelf.save(session, IMAGE)
    forget_everything()
    rebuild.rebuild()
    rebuild.rebuild()
    session = Session.objects.get(id=session.id)
    assert session.event_count == newest.event_watermark == 3
    lines = list(session.events.order_by("number").values_list("number", "type"))
    assert lines == [(number, "session.rebuilt" if number == 1 else "history.lost") for number in range(1, session.event_count + 1)]
    for step in steps.reconcile:
        step(session, newest.id)


def test_a_checkpoint_that_was_erased_does_not_come_back(shelf: Shelf) -> None:
    history(shelf)
    erased = Checkpoint.objects.get(state="erased")
    forget_everything()
    rebuild.rebuild()
    assert not Checkpoint.objects.filter(id=erased.id).exists()


def test_after_it_erasure_is_as_exact_as_before(shelf: Shelf) -> None:
    rows = history(shelf)
    forget_everything()
    rebuild.rebuild()
    shelf.account = Account.objects.get()
    erase.erase_checkpoint(Checkpoint.objects.get(id=rows[0].id))
    shelf.assert_whole(*rows[1:])
    shelf.assert_exact()


@pytest.mark.parametrize("lost", ["edges", "packs", "manifests", "checkpoint", "generation", "units", "key", "nothing"])
def test_a_damaged_database_is_repaired(shelf: Shelf, lost: str) -> None:
    rows = history(shelf)
    before = told()
    if lost in ("edges", "packs", "manifests", "checkpoint"):
        PackEdge.objects.all().delete()
        ManifestEdge.objects.all().delete()
    if lost == "packs":
        Pack.objects.all().delete()
    if lost == "manifests":
        Manifest.objects.all().delete()
    if lost == "checkpoint":
        Checkpoint.objects.filter(id=rows[1].id).delete()
    if lost == "generation":
        Pack.objects.update(generation=7)
    if lost == "units":
        PackEdge.objects.update(units=b"")
    if lost == "key":
        AccountKey.objects.update(wrapped=b"damaged")
    assert rebuild.rebuild().problems == []
    assert told() == before
    shelf.assert_whole(*rows)
    shelf.assert_exact()


def test_what_the_database_knows_better_stays(shelf: Shelf) -> None:
    """A save that failed after its manifest was durable, and one that was never published."""
    session = shelf.session()
    row = shelf.begin(session, None)
    shelf.store(row, IMAGE)
    Checkpoint.objects.filter(id=row.id).update(state="failed")
    assert rebuild.rebuild().checkpoints == 0
    assert Checkpoint.objects.get(id=row.id).state == "failed"
    assert not Pack.objects.exists()


def test_a_pack_that_is_missing_makes_exactly_its_checkpoints_corrupt(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 0, UNITS, 2), parent=first)
    lost = first.edges.first()
    assert lost is not None
    storage.backend().delete(object_key(shelf.account.id, Kind.PACK, lost.pack_id))
    forget_everything()
    assert rebuild.rebuild().corrupt == 1
    assert Checkpoint.objects.get(id=first.id).state == "corrupt"
    assert np.array_equal(shelf.restore(Checkpoint.objects.get(id=second.id)), shelf.contents[second.id])


def test_a_manifest_that_cannot_be_read_is_told_and_the_others_come_back(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = shelf.save(shelf.session(), IMAGE), shelf.save(shelf.session(), content(UNITS, 2))
    file = shelf.path(object_key(shelf.account.id, Kind.MANIFEST, one.manifest_id))
    file.write_bytes(file.read_bytes()[:-1])
    forget_everything()
    with pytest.raises(SystemExit):
        call_command("rebuild_index")
    assert one.manifest_id in capsys.readouterr().out
    assert list(Checkpoint.objects.values_list("id", flat=True)) == [two.id]


def test_a_rewrite_that_died_is_finished(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 4, 4, 3), parent=first)

    class Died(BaseException):
        pass

    def die(name: str) -> None:
        if name == "pack_moved":
            raise Died

    with pytest.raises(Died):
        erase.erase_checkpoint(first, step=die)
    forget_everything()
    rebuild.rebuild()
    shelf.account = Account.objects.get()
    shelf.assert_whole(Checkpoint.objects.get(id=second.id))
    shelf.assert_exact()


def test_another_master_key_restores_nothing_and_says_so(shelf: Shelf, settings) -> None:
    shelf.save(shelf.session(), IMAGE)
    forget_everything()
    settings.KEEPSTATE_MASTER_KEY = bytes(32)
    done = rebuild.rebuild()
    assert "opens with this master key" in done.problems[0]
    assert not Checkpoint.objects.exists()


def test_a_listing_that_fails_changes_nothing(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    before = told()

    def broken(prefix: str):
        raise UnavailableError("no answer")

    monkeypatch.setattr(storage.backend(), "list", broken)
    with pytest.raises(UnavailableError):
        rebuild.rebuild()
    monkeypatch.undo()
    assert told() == before
    shelf.assert_whole(row)


def test_what_is_erased_meanwhile_gets_nothing_back(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    other = shelf.save(shelf.session(), changed(IMAGE, 0, 20, 2))
    right = rebuild._packs

    def erased_before(*arguments: object) -> None:
        erase.erase_checkpoint(row)
        right(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rebuild, "_packs", erased_before)
    rebuild.rebuild()
    assert not row.edges.exists()
    shelf.assert_whole(other)
    shelf.assert_exact()


def test_a_pack_that_could_not_be_read_is_known_again_by_a_rebuild_that_can(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    edge = row.edges.first()
    assert edge is not None
    file = shelf.path(object_key(shelf.account.id, Kind.PACK, edge.pack_id))
    stored = file.read_bytes()
    file.write_bytes(stored[:60] + bytes([stored[60] ^ 1]) + stored[61:])
    forget_everything()
    assert rebuild.rebuild().corrupt == 1
    file.write_bytes(stored)
    rebuild.rebuild()
    shelf.account = Account.objects.get()
    shelf.assert_whole(Checkpoint.objects.get(id=row.id))
    shelf.assert_exact()
