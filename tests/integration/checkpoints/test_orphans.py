"""Objects that no row names: a day in their place, a week in quarantine, looked at again each time; nothing is decided by a bad listing."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from checkpoints_app.models import AccountKey, Checkpoint, Manifest, OrphanObject, Pack
from checkpoints_app.services import account_erase, orphans, scrub, storage
from checkpoints_app.store import Kind, UnavailableError, object_key
from checkpoints_app.store.names import QUARANTINE
from sessions_app.models import Session
from tests.store_kit import content
from tests.support.shelf import UNITS, Shelf

IMAGE = content(UNITS, 1)


def keys_now() -> set[str]:
    return {listed.key for listed in storage.backend().list("")}


def abandoned(shelf: Shelf) -> set[str]:
    """The keys of a save that made all its objects durable and died before its publication."""
    before = keys_now()
    shelf.store(shelf.begin(shelf.session(), None), content(UNITS, 5))
    return {key for key in keys_now() - before if not key.endswith("/key")}


def days_pass(days: float) -> None:
    """For the database, which alone says how long ago something was."""
    OrphanObject.objects.update(first_seen_at=F("first_seen_at") - timedelta(days=days))
    OrphanObject.objects.filter(quarantined_at__isnull=False).update(quarantined_at=F("quarantined_at") - timedelta(days=days))


def test_an_orphan_is_only_noted_at_first_then_quarantined_then_deleted(shelf: Shelf) -> None:
    kept = shelf.save(shelf.session(), IMAGE)
    lost = abandoned(shelf)
    assert orphans.sweep().report["orphans"] == 4
    assert lost <= keys_now()
    days_pass(0.9)
    orphans.sweep()
    assert lost <= keys_now()
    days_pass(0.2)
    assert orphans.sweep().report["quarantined"] == 4
    assert keys_now() & lost == set()
    assert {QUARANTINE + key for key in lost} <= keys_now()
    days_pass(6.9)
    assert orphans.sweep().report["deleted"] == 0
    days_pass(0.2)
    assert orphans.sweep().report["deleted"] == 4
    assert not any(key.startswith(QUARANTINE) for key in keys_now())
    assert not OrphanObject.objects.exists()
    shelf.assert_whole(kept)
    shelf.assert_exact()


def test_an_object_that_gets_its_row_in_time_is_forgotten(shelf: Shelf) -> None:
    row = shelf.begin(shelf.session(), None)
    stored = shelf.store(row, IMAGE)
    orphans.sweep()
    days_pass(2)
    shelf.publish(row, stored)
    shelf.contents[row.id] = IMAGE
    assert orphans.sweep().report["quarantined"] == 0
    assert not OrphanObject.objects.exists()
    shelf.assert_whole(row)


def test_an_object_that_gets_its_row_while_it_is_in_quarantine_is_put_back(shelf: Shelf) -> None:
    kept = shelf.save(shelf.session(), IMAGE)
    pack = Pack.objects.order_by("id").first()
    assert pack is not None
    edges = list(pack.edges.all())
    pack.edges.all().delete()
    Pack.objects.filter(id=pack.id).delete()
    orphans.sweep()
    days_pass(2)
    assert orphans.sweep().report["quarantined"] == 1
    Pack.objects.bulk_create([pack])
    type(edges[0]).objects.bulk_create(edges)
    scrub.run(everything=True)
    assert Checkpoint.objects.get(id=kept.id).state == "corrupt"
    assert orphans.sweep().report["put_back"] == 1
    assert scrub.run().objects_done == 1
    shelf.assert_whole(kept)


def test_a_listing_that_fails_in_its_middle_decides_nothing(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.save(shelf.session(), IMAGE)
    lost = abandoned(shelf)
    orphans.sweep()
    days_pass(2)
    backend = storage.backend()
    whole = backend.list

    def broken(prefix: str):
        for number, listed in enumerate(whole(prefix)):
            if number == 6:
                raise UnavailableError("the listing broke off")
            yield listed

    with monkeypatch.context() as patch:
        patch.setattr(backend, "list", broken)
        with pytest.raises(UnavailableError):
            orphans.sweep()
    assert lost <= keys_now()
    assert OrphanObject.objects.filter(quarantined_at__isnull=True).count() == 4


def test_a_listing_that_is_short_deletes_and_quarantines_nothing_that_is_named(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    monkeypatch.setattr(storage.backend(), "list", lambda prefix: iter(()))
    orphans.sweep()
    monkeypatch.undo()
    shelf.assert_whole(row)


def test_what_the_database_does_not_know_at_all_is_told_and_never_touched(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    foreign = {object_key("acct-unknown", Kind.PACK, "ab" * 32), "accounts/odd", "probe/canary"}
    for key in foreign:
        storage.backend().put_if_absent(key, [b"x"])
    assert orphans.sweep().report["strangers"] == 3
    days_pass(30)
    orphans.sweep()
    assert foreign <= keys_now()
    assert not OrphanObject.objects.exists()


def test_an_empty_database_beside_a_full_store_touches_nothing(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    there = keys_now()
    for edges in (Pack.objects.first().edges.model, Manifest.objects.first().edges.model):  # type: ignore[union-attr]
        edges.objects.all().delete()
    for model in (Pack, Manifest, AccountKey):
        model.objects.all().delete()
    orphans.sweep()
    days_pass(30)
    orphans.sweep()
    assert keys_now() == there


def test_what_a_writer_put_after_its_account_was_erased_is_an_orphan(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    Session.objects.update(runtime_state="deleted")
    account_erase.erase_account(shelf.account)
    late = object_key(shelf.account.id, Kind.PACK, "cd" * 32)
    storage.backend().put_if_absent(late, [b"sealed with a key that is gone"])
    assert orphans.sweep().report["orphans"] == 1


def test_a_generation_that_a_rewrite_is_about_to_take_is_no_orphan_and_one_that_it_left_is(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    pack = Pack.objects.order_by("id").first()
    assert pack is not None
    key = object_key(shelf.account.id, Kind.PACK, pack.id, 1)
    storage.backend().put_if_absent(key, [b"x"])
    Pack.objects.filter(id=pack.id).update(state="rewriting", reserved_generation=1)
    assert orphans.unknown([key]) == []
    Pack.objects.filter(id=pack.id).update(state="live")
    assert orphans.unknown([key]) == [key]


def test_a_move_into_quarantine_that_died_half_way_is_done_again(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    lost = abandoned(shelf)
    orphans.sweep()
    days_pass(2)
    one = min(lost)
    storage.backend().put_if_absent(QUARANTINE + one, storage.backend().stream(one))
    orphans.sweep()
    assert keys_now() & lost == set()
    assert {QUARANTINE + key for key in lost} <= keys_now()


def test_the_week_begins_again_for_what_lies_in_quarantine_without_a_row(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    abandoned(shelf)
    orphans.sweep()
    days_pass(2)
    orphans.sweep()
    OrphanObject.objects.all().delete()
    orphans.sweep()
    assert OrphanObject.objects.filter(quarantined_at__isnull=False).count() == 4
    days_pass(8)
    assert orphans.sweep().report["deleted"] == 4


def test_what_lies_in_quarantine_costs_no_query_for_each(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)

    def queries() -> int:
        abandoned(shelf)
        orphans.sweep()
        days_pass(2)
        orphans.sweep()
        with CaptureQueriesContext(connection) as seen:
            orphans.sweep()
        return len(seen)

    few = queries()
    assert queries() == few
    assert OrphanObject.objects.filter(quarantined_at__isnull=False).count() == 8
