"""Missing is not corrupt: a store that is not mounted, or is another one, looks like one in which everything is missing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints_app.models import AccountKey, Checkpoint, Manifest, Pack
from checkpoints_app.services import account_erase, erase, export, key, rebuild, scrub, storage, verify
from checkpoints_app.store import Kind, MissingObjectError, SecretKey, UnavailableError, object_key
from checkpoints_app.store.backends.backend import Listed
from checkpoints_app.store.names import account_key_key
from sessions_app.errors import IntegrityFailed
from sessions_app.models import Session
from tests.store_kit import content
from tests.support import fleet
from tests.support.shelf import UNITS, Shelf

IMAGE = content(UNITS, 1)


def unmount(shelf: Shelf) -> Callable[[], Path]:
    """Nothing of the store is there; call what this returns to have it back."""
    objects = shelf.path("accounts/x").parents[2]
    away = objects.rename(objects.with_name("away"))
    objects.mkdir()

    def mount() -> Path:
        objects.rename(objects.with_name("under the mount"))
        return away.rename(objects)

    return mount


def pack_key(row: Checkpoint) -> str:
    edge = row.edges.order_by("pack_id").first()
    assert edge is not None
    return object_key(row.account_id, Kind.PACK, edge.pack_id)


def test_what_was_written_meanwhile_where_the_store_should_be_does_not_make_it_the_store(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    mount = unmount(shelf)
    storage.backend().put_if_absent(object_key(shelf.account.id, Kind.PACK, "ab" * 32), [b"stray"])
    for act in (lambda: scrub.run(everything=True), lambda: erase.erase_checkpoint(row), lambda: key.keys_to_save(shelf.account.id)):
        with pytest.raises(UnavailableError, match="mounted"):
            act()
    mount()
    shelf.assert_whole(row)
    shelf.assert_exact()


def test_an_account_that_never_saved_begins_in_no_store_but_the_one_that_the_database_tells_of(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    other = Shelf(fleet.tenant("other").account)
    mount = unmount(shelf)
    with pytest.raises(UnavailableError, match="mounted"):
        other.save(other.session(), IMAGE)
    assert list(storage.backend().list("")) == []
    mount()
    other.assert_whole(other.save(other.session(), IMAGE))
    shelf.assert_whole(row)


def test_an_account_is_not_reported_erased_from_a_store_that_is_not_mounted(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    Session.objects.update(runtime_state="deleted")
    mount = unmount(shelf)
    with pytest.raises(UnavailableError, match="mounted"):
        account_erase.erase_account(shelf.account)
    assert AccountKey.objects.exists()
    mount()
    assert account_erase.erase_account(shelf.account).object_count == 5


def test_a_wrapping_that_was_lost_alone_is_put_back_and_stops_nobody(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    storage.backend().delete(account_key_key(shelf.account.id, 0))
    storage.backend().delete(pack_key(row))
    scrub.run(everything=True)
    assert Checkpoint.objects.get(id=row.id).state == "corrupt"
    key.keys_to_save(shelf.account.id)
    assert key.read_stored(shelf.account.id, 0) is not None


def test_an_export_that_misses_an_object_condemns_nothing_and_has_the_scrub_look_soon(shelf: Shelf, tmp_path: Path) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    storage.backend().delete(pack_key(row))
    with pytest.raises(IntegrityFailed, match="not in the store"):
        export.export(row.id, tmp_path / "export", SecretKey(bytes(32)))
    assert Checkpoint.objects.get(id=row.id).state == "published"
    assert not scrub.behind()
    assert scrub.run().objects_done == 1
    assert Checkpoint.objects.get(id=row.id).state == "corrupt"


def test_an_export_from_a_store_that_is_not_mounted_says_so(shelf: Shelf, tmp_path: Path) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    mount = unmount(shelf)
    with pytest.raises(UnavailableError, match="mounted"):
        export.export(row.id, tmp_path / "export", SecretKey(bytes(32)))
    mount()
    shelf.assert_whole(row)
    assert scrub.run().objects_done == 0


@pytest.mark.parametrize("kind", ["pack", "manifest"])
def test_a_reader_that_misses_an_object_marks_nothing(shelf: Shelf, kind: str) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    storage.backend().delete(pack_key(row) if kind == "pack" else object_key(row.account_id, Kind.MANIFEST, row.manifest_id))
    with pytest.raises(MissingObjectError) as caught:
        shelf.restore(row)
    verify.refused(row, caught.value, source="test")
    assert Checkpoint.objects.get(id=row.id).state == "published"
    assert [*Pack.objects.values_list("state", flat=True), *Manifest.objects.values_list("state", flat=True)] == ["live"] * 4
    assert scrub.run().objects_done == 1


def test_a_rebuild_looks_for_itself_before_it_calls_missing_what_a_listing_left_out(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    left_out, whole = pack_key(row), storage.backend().list

    def short(prefix: str) -> list[Listed]:
        return [listed for listed in whole(prefix) if listed.key != left_out]

    for rows_are_there in (True, False):
        if not rows_are_there:
            row.edges.all().delete()
            Pack.objects.all().delete()
        with monkeypatch.context() as patch:
            patch.setattr(storage.backend(), "list", short)
            assert rebuild.rebuild().corrupt == 0
        shelf.assert_whole(row)
