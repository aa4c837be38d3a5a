"""Erasure beside a save, beside a restore, beside another erasure: neither passes the other."""

import threading

import numpy as np
import pytest
from django.db import connection, transaction

from checkpoints_app.models import Checkpoint, Pack
from checkpoints_app.services import dedup, erase, host_index, key, pack, publish, storage
from checkpoints_app.services.relied import PacksMoved
from checkpoints_app.store import LocalBackend, load_pack_index
from sessions_app.services import locks
from tests.store_kit import content
from tests.support import fleet
from tests.support.shelf import LEASE, UNITS, Shelf
from tests.support.threads import at_once

IMAGE = content(UNITS, 1)
OTHER = content(UNITS, 2)


def changed(image, start, count, seed):
    after = image.copy()
    after[start : start + count] = content(count, seed)
    return after


def test_a_save_whose_dedup_packs_are_erased_before_its_publication_is_not_published(shelf: Shelf) -> None:
    first = shelf.save(shelf.session(), IMAGE)
    row = shelf.begin(shelf.session(), None)
    stored = shelf.store(row, IMAGE)
    assert stored.new_packs == []
    erase.erase_checkpoint(first)
    with pytest.raises(PacksMoved):
        shelf.publish(row, stored)
    assert Checkpoint.objects.get(id=row.id).state == "uploading"
    assert not row.edges.exists()


def test_the_same_save_stored_again_is_published_and_whole(shelf: Shelf) -> None:
    first = shelf.save(shelf.session(), IMAGE)
    row = shelf.begin(shelf.session(), None)
    stale = shelf.store(row, IMAGE)
    erase.erase_checkpoint(first)
    storage.discard(shelf.account.id, [one.id for one in stale.new_packs], stale.manifest_id)
    shelf.publish(row, shelf.store(row, IMAGE))
    shelf.contents[row.id] = IMAGE
    shelf.assert_whole(row)
    shelf.assert_exact()


def test_a_save_that_relies_on_a_pack_that_was_rewritten_is_not_published(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 4, 4, 3), parent=first)
    row = shelf.begin(session, second)
    stored = shelf.store(row, changed(shelf.contents[second.id], 40, 2, 4))
    erase.erase_checkpoint(first)
    with pytest.raises(PacksMoved):
        shelf.publish(row, stored)


def test_a_save_whose_parents_manifest_is_erased_is_not_published(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    row = shelf.begin(session, first)
    stored = shelf.store(row, content(UNITS, 9))
    assert stored.ancestors == [first.manifest_id]
    erase.erase_checkpoint(first)
    with pytest.raises(PacksMoved):
        shelf.publish(row, stored)


def test_an_erasure_waits_for_a_publication_that_holds_its_pack_and_sees_its_edge(shelf: Shelf) -> None:
    first = shelf.save(shelf.session(), IMAGE)
    row = shelf.begin(shelf.session(), None)
    stored = shelf.store(row, IMAGE)
    begun = threading.Event()

    def erase_first() -> None:
        begun.set()
        try:
            erase.erase_checkpoint(first)
        finally:
            connection.close()

    eraser = threading.Thread(target=erase_first)
    with transaction.atomic():
        publish.publish(row, stored, LEASE, source="test")
        eraser.start()
        begun.wait(10)
    eraser.join()
    row.refresh_from_db()
    shelf.contents[row.id] = IMAGE
    shelf.assert_whole(row)
    shelf.assert_exact()


def test_an_index_waits_for_a_rewrite_that_died_by_finishing_it(shelf: Shelf) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 4, 4, 3), parent=first)

    class Died(BaseException):
        pass

    def die(name: str) -> None:
        if name == "rewrite_durable":
            raise Died

    with pytest.raises(Died):
        erase.erase_checkpoint(first, step=die)
    assert Pack.objects.filter(state="rewriting").exists()
    third = shelf.save(session, changed(shelf.contents[second.id], 40, 2, 4), parent=second)
    erase.erase_checkpoint(first)
    shelf.assert_whole(second, third)
    shelf.assert_exact()


def test_a_restore_whose_packs_are_rewritten_under_it_reads_the_next_generation(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    second = shelf.save(session, changed(IMAGE, 4, 4, 3), parent=first)
    backend, reads = storage.backend(), list[str]()
    assert isinstance(backend, LocalBackend)
    read, lock = backend.read, threading.Lock()

    def read_after_the_erasure(key: str, offset: int, length: int) -> bytes:
        if not threading.current_thread().name.startswith("restore"):
            return read(key, offset, length)
        with lock:
            if not reads:
                at_once(1, lambda _: erase.erase_checkpoint(first))
            reads.append(key)
        return read(key, offset, length)

    monkeypatch.setattr(backend, "read", read_after_the_erasure)
    assert np.array_equal(shelf.restore(second), shelf.contents[second.id])
    assert any(name.endswith("-1") for name in reads)
    monkeypatch.undo()
    shelf.assert_exact()


def test_a_reader_that_follows_a_pack_in_a_thread_of_its_own_leaves_no_connection_to_the_database(shelf: Shelf) -> None:
    """Such a thread ends with what it reads, and a connection that nobody gives back is one less for the process."""
    shelf.save(shelf.session(), IMAGE)
    assert connection.connection is not None
    assert storage.generations([]) == {}
    assert connection.connection is not None, "who has one keeps it"
    packs = list(Pack.objects.values_list("id", flat=True))

    def follow(_: int) -> tuple[set[str], bool]:
        found = storage.generations(packs)
        return set(found), connection.connection is None

    assert at_once(1, follow) == [(set(packs), True)]


def test_two_erasures_of_one_session_at_once_leave_nothing(shelf: Shelf) -> None:
    session = shelf.session()
    shelf.save(session, IMAGE)
    at_once(2, lambda number: erase.erase_session(session))
    assert [name.word for name in shelf.object_names()] == ["key"]


def test_two_erasures_that_share_packs_leave_exactly_what_the_third_needs(shelf: Shelf) -> None:
    sessions = [shelf.session() for _ in range(3)]
    first = shelf.save(sessions[0], IMAGE)
    rows = [first]
    for number, session in enumerate(sessions[1:]):
        rows.append(shelf.save(session, changed(IMAGE, number * 12, 9, number), parent=first))
    at_once(2, lambda number: erase.erase_checkpoint(rows[number]))
    shelf.assert_whole(rows[2])
    shelf.assert_exact()


def test_an_erasure_beside_saves_of_the_same_content_loses_nothing(shelf: Shelf) -> None:
    sessions = [shelf.session() for _ in range(4)]
    first = shelf.save(sessions[0], IMAGE)

    def act(number: int) -> Checkpoint | None:
        if number == 0:
            erase.erase_checkpoint(first)
            return None
        return shelf.save(sessions[number], IMAGE if number < 3 else OTHER)

    saved = [row for row in at_once(4, act) if row is not None]
    shelf.assert_whole(*saved)
    shelf.assert_exact()


def test_a_pack_that_somebody_is_at_for_long_is_reported_busy_and_left(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    pack_id = row.edges.first().pack_id  # type: ignore[union-attr]

    def settle_it(_: int) -> str:
        with pytest.raises(locks.Busy):
            pack.settle(pack_id, wait_seconds=0)
        return "busy"

    with locks.exclusive(f"pack/{pack_id}", 0):
        assert at_once(1, settle_it) == ["busy"]
    shelf.assert_whole(row)


def test_the_index_of_an_account_holds_nothing_of_another(shelf: Shelf) -> None:
    stored = shelf.store(shelf.begin(shelf.session(), None), IMAGE)
    shelf.save(shelf.session(), IMAGE)
    own, foreign = shelf.account, fleet.tenant("other").account
    (pack_id, *_) = [one.id for one in stored.new_packs]
    ids = load_pack_index(storage.backend(), key.keys_to_read(own.id), own.id, pack_id).ids
    assert (dedup.index_for(own.id, key.keys_to_save(own.id), None).index.lookup(ids) >= 0).all()
    assert (dedup.index_for(foreign.id, key.keys_to_save(foreign.id), None).index.lookup(ids) == -1).all()
    assert host_index.of(foreign.id).pack_ids() == set()
