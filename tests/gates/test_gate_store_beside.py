"""Gate: erasure beside a save, beside a restore and beside another erasure, at every step of each."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from django.db import connection

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import erase, publish, storage
from checkpoints_app.services.relied import PacksMoved
from checkpoints_app.store import StoreError
from checkpoints_app.store.writer import STEPS as SAVE_STEPS
from tests.store_kit import Content, content
from tests.support.shelf import UNITS, Shelf
from tests.support.shelf_fixtures import on_both, on_each, shelf, store
from tests.support.threads import at_once

__all__ = ["shelf", "store"]

IMAGE = content(UNITS, 1)
WHILE_SAVING = [step for step in SAVE_STEPS if step.startswith(("pack", "manifest_"))]
S3_WHILE_SAVING = ["packs.object_staged", "packs_durable", "before_publish"]  # on S3 an object is there from the first of these on
ERASE_STEPS = ["marked", "pack_edges_dropped", "pack_rewrite_decided", "rewrite_durable", "pack_moved", "pack_object_deleted", "closed"]
S3_ERASE_STEPS = ["rewrite_durable", "pack_object_deleted"]


def changed(image: Content, start: int, count: int, seed: int) -> Content:
    after = image.copy()
    after[start : start + count] = content(count, seed)
    return after


def elsewhere(act: Callable[[], object]) -> None:
    """As another worker does it: in a thread, with a connection of its own; returns when it is done."""

    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    worker = threading.Thread(target=run)
    worker.start()
    worker.join()


def once_at(step: str, act: Callable[[], object]) -> Callable[[str], None]:
    left = [act]

    def watch(name: str) -> None:
        if name == step and left:
            elsewhere(left.pop())

    return watch


class SaveBesideErasure:
    """A save that relies on a checkpoint's packs and manifest, and the erasure of that checkpoint at one of its steps."""

    def __init__(self, shelf: Shelf, step: str):
        self.shelf, self.session = shelf, shelf.session()
        self.first = shelf.save(self.session, IMAGE)
        self.memory = changed(IMAGE, 4, 20, 2)
        self.row = shelf.begin(self.session, self.first)
        self.step = step
        self.moved = False

    def run(self) -> None:
        stored = self.shelf.store(self.row, self.memory, step=once_at(self.step, lambda: erase.erase_checkpoint(self.first)))
        if self.step == "before_publish":
            elsewhere(lambda: erase.erase_checkpoint(self.first))
        try:
            self.shelf.publish(self.row, stored)
        except PacksMoved:
            self.moved = True
            storage.discard(self.shelf.account.id, [pack.id for pack in stored.new_packs], stored.manifest_id)
            self.shelf.publish(self.row, self.shelf.store(self.row, self.memory))
        self.shelf.contents[self.row.id] = self.memory

    def judge(self) -> None:
        try:
            self.shelf.assert_whole(self.row)
            self.shelf.assert_exact()
        except StoreError as error:
            raise AssertionError(f"what was published is not whole: {error}") from error


@pytest.mark.gate("store", "a save beside the erasure of what it relies on is published whole, or stored again, never on what is gone")
@pytest.mark.parametrize(("store", "step"), on_each([*WHILE_SAVING, "before_publish"], S3_WHILE_SAVING), indirect=["store"])
def test_an_erasure_at_this_step_of_a_save(shelf: Shelf, evidence: dict[str, object], step: str) -> None:
    beside = SaveBesideErasure(shelf, step)
    beside.run()
    beside.judge()
    assert beside.moved
    evidence |= {"erased at": step, "stored again": beside.moved}


def test_the_gate_notices_a_publication_that_does_not_compare(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_hold", lambda checkpoint, stored: None)
    beside = SaveBesideErasure(shelf, "packs_written")

    def run_and_judge() -> None:
        beside.run()
        beside.judge()

    with pytest.raises(Exception, match=r"not whole|foreign key"):
        run_and_judge()


@pytest.mark.gate("store", "a restore beside the erasure of a checkpoint that shares its packs gives the right bytes")
@on_both
@pytest.mark.parametrize("read", [1, 2, 3])
def test_a_restore_beside_an_erasure(shelf: Shelf, evidence: dict[str, object], monkeypatch: pytest.MonkeyPatch, read: int) -> None:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    child = shelf.save(session, changed(changed(IMAGE, 4, 4, 2), 20, 4, 3), parent=first)
    restored, generations = restore_while_erasing(shelf, first, child, monkeypatch, read)
    assert np.array_equal(restored, shelf.contents[child.id])
    if read == 1:  # later ones may be of the pack that does not change
        assert any("-" in name.rsplit("/", 1)[1] for name in generations)
    shelf.assert_exact()
    evidence |= {"erased before read": read, "objects read": len(generations)}


def restore_while_erasing(
    shelf: Shelf, first: Checkpoint, child: Checkpoint, monkeypatch: pytest.MonkeyPatch, when: int
) -> tuple[Content, list[str]]:
    backend = storage.backend()
    read, lock, keys = backend.read, threading.RLock(), list[str]()

    def watched(key: str, offset: int, length: int) -> bytes:
        if threading.current_thread().name.startswith("restore"):
            with lock:
                keys.append(key)
                if len(keys) == when:
                    elsewhere(lambda: erase.erase_checkpoint(first))
        return read(key, offset, length)

    with monkeypatch.context() as patch:
        patch.setattr(backend, "read", watched)
        return shelf.restore(child), keys


@on_both
def test_the_gate_notices_a_reader_that_does_not_follow(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "generations", lambda pack_ids: {})
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    child = shelf.save(session, changed(IMAGE, 4, 4, 2), parent=first)
    with pytest.raises(StoreError):
        restore_while_erasing(shelf, first, child, monkeypatch, 1)


@pytest.mark.gate("store", "of two erasures at once the second finishes what is left, and nothing else is touched")
@pytest.mark.parametrize(("store", "step"), on_each(ERASE_STEPS, S3_ERASE_STEPS), indirect=["store"])
def test_a_second_erasure_at_this_step_of_the_first(shelf: Shelf, evidence: dict[str, object], step: str) -> None:
    """The second is of a sibling that shares the same packs; it begins while the first is at this step, and ends after it."""
    sessions = [shelf.session() for _ in range(3)]
    first = shelf.save(sessions[0], IMAGE)
    second, third = (
        shelf.save(session, changed(IMAGE, number * 16, 9, number), parent=first) for number, session in enumerate(sessions[1:], 1)
    )
    reached, ended = threading.Event(), list[str]()

    def watch(name: str) -> None:
        if name == step:
            reached.set()

    def act(number: int) -> None:
        if number == 0:
            erase.erase_checkpoint(first, step=watch)
            reached.set()
        else:
            reached.wait(60)
            erase.erase_checkpoint(second)
        ended.append(f"erasure {number}")

    at_once(2, act)
    shelf.assert_whole(third)
    shelf.assert_exact()
    evidence |= {"second began at": step, "ended": ended}


@pytest.mark.gate("store", "of two saves of the same content at once both are whole, and erasing one leaves the other")
@on_both
def test_two_writers_of_the_same_content(shelf: Shelf, evidence: dict[str, object]) -> None:
    sessions = [shelf.session() for _ in range(2)]
    rows = at_once(2, lambda number: shelf.save(sessions[number], IMAGE))
    shelf.assert_whole(*rows)
    erase.erase_checkpoint(rows[0])
    shelf.assert_whole(rows[1])
    shelf.assert_exact()
    evidence["packs"] = rows[1].edges.count()
