"""Erasure: what only the erased held is gone, byte for byte, and what others need is untouched."""

import threading

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from checkpoints_app.models import Checkpoint, Manifest, Pack
from checkpoints_app.services import erase, storage
from checkpoints_app.store import UnavailableError
from checkpoints_app.store.names import erased_mark_key
from sessions_app.services import event
from tests.store_kit import content
from tests.support.shelf import UNITS, Shelf
from tests.support.threads import at_once
from tests.support.waiting import until


def changed(image, start, count, seed):
    after = image.copy()
    after[start : start + count] = content(count, seed)
    return after


IMAGE = content(UNITS, 1)
NEXT = changed(IMAGE, 4, 20, 2)


def test_erasing_the_only_checkpoint_leaves_nothing_but_the_key(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    told = erase.erase_checkpoint(row)
    assert [name.word for name in shelf.object_names()] == ["key"]
    assert (told["packs"], told["packs_shared"]) == (3, 0)
    row.refresh_from_db()
    assert row.state == "erased"
    assert not Pack.objects.exists()
    assert not Manifest.objects.exists()


def test_erasing_a_parent_leaves_what_its_child_needs_and_nothing_more(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, NEXT, parent=first)
    told = erase.erase_checkpoint(first)
    assert told["packs_rewritten"] == 2
    shelf.assert_whole(second)
    shelf.assert_exact()
    assert shelf.path(erased_mark_key(shelf.account.id, first.manifest_id)).exists()


def test_erasing_a_child_leaves_its_parent_as_it_was(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, NEXT, parent=first)
    erase.erase_checkpoint(second)
    shelf.assert_whole(first)
    shelf.assert_exact()
    session.refresh_from_db()
    assert session.head_checkpoint_id == first.id


def test_the_heads_that_an_erasure_moves_are_found_by_their_sessions_and_not_by_reading_all(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    with CaptureQueriesContext(connection) as seen:
        erase.erase_checkpoint(row)
    (locking,) = [one["sql"] for one in seen if 'FROM "sessions_app_session"' in one["sql"] and "UPDATE" in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(f"EXPLAIN {locking}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("RESET enable_seqscan")
    assert "Index Cond" in plan, plan


def test_an_erasure_of_the_head_beside_the_beginning_of_a_save_leaves_both_done(shelf: Shelf) -> None:
    """The save has the session's row and names the head as its parent; the erasure has the head and asks for the session's row."""
    session = shelf.session()
    head = shelf.save(session, IMAGE)

    def waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction sees one picture else
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
            return bool(cursor.fetchone()[0])

    def act(number: int) -> None:
        if number == 0:
            locked.wait(30)
            erase.erase_checkpoint(head)
            return
        with transaction.atomic():
            event.append(session.id, "session.checkpointing", source="test")
            locked.set()
            until(waits, 30, "the erasure waits for the session")
            shelf.begin(session, head)

    locked = threading.Event()
    at_once(2, act)
    assert [row.state for row in Checkpoint.objects.order_by("created_at")] == ["erased", "uploading"]


def test_erasing_a_session_leaves_its_fork_whole(shelf: Shelf) -> None:
    session, fork = shelf.session(), shelf.session()
    first = shelf.save(session, IMAGE)
    forked = shelf.save(fork, NEXT, parent=first)
    erase.erase_session(session)
    shelf.assert_whole(forked)
    shelf.assert_exact()
    erase.erase_session(fork)
    assert [name.word for name in shelf.object_names()] == ["key"]


def test_two_sessions_of_an_account_share_equal_content(shelf: Shelf) -> None:
    one, two = shelf.save(shelf.session(), IMAGE), shelf.save(shelf.session(), IMAGE)
    assert set(one.edges.values_list("pack_id", flat=True)) == set(two.edges.values_list("pack_id", flat=True))
    erase.erase_checkpoint(one)
    shelf.assert_whole(two)
    shelf.assert_exact()


def test_the_middle_of_a_line_goes_and_both_ends_stay(shelf: Shelf) -> None:
    session = shelf.session()
    line = [shelf.save(session, IMAGE)]
    for number in range(1, 10):
        line.append(shelf.save(session, changed(shelf.contents[line[-1].id], number * 4, 6, number + 10), parent=line[-1]))
    for row in line[1:9]:
        erase.erase_checkpoint(row)
        shelf.assert_exact()
    shelf.assert_whole(line[0], line[9])


def test_erasing_twice_does_nothing_more(shelf: Shelf) -> None:
    session = shelf.session()
    shelf.save(session, IMAGE)
    erase.erase_session(session)
    told = erase.erase_session(session)
    assert (told["packs"], told["packs_rewritten"], told["stored_bytes"]) == (0, 0, 0)


def test_a_store_that_fails_leaves_an_erasure_that_can_be_done_again(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, NEXT, parent=first)

    def broken(*_: object) -> bool:
        raise UnavailableError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(storage.backend(), "delete", broken)
        with pytest.raises(UnavailableError):
            erase.erase_checkpoint(first)
    first.refresh_from_db()
    assert first.state == "erasing"
    erase.erase_checkpoint(first)
    shelf.assert_whole(second)
    shelf.assert_exact()


def test_an_object_that_is_there_after_its_deletion_is_not_reported_gone(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    with monkeypatch.context() as patch:
        patch.setattr(storage.backend(), "delete", lambda key: True)
        with pytest.raises(UnavailableError, match="still there"):
            erase.erase_checkpoint(row)
    assert Checkpoint.objects.get(id=row.id).state == "erasing"
