"""A save that finds content of a checkpoint which is erased before the save is published."""

import numpy as np
import pytest

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import erase, publish
from checkpoints_app.services.relied import PacksMoved
from sessions_app.models import Session
from sessions_app.services.lease import LeaseLost
from tests.integration.operations.world import World, done, error_of, forget_cache, leftovers, objects, runs, scribble


def same_content(world: World, session: Session) -> tuple[Checkpoint, Session]:
    """A saved checkpoint, and another session whose machine has the same in its memory."""
    scribble(session, 2, seed=1)
    saved = world.save(session)
    other = world.boot()
    scribble(other, 2, seed=1)
    return saved, other


def test_it_is_stored_again_and_published_whole(world: World, session: Session) -> None:
    saved, other = same_content(world, session)
    world.at("before_publish", lambda: erase.erase_checkpoint(saved))
    row = world.save(other, stop=True)
    assert row.unique_bytes is not None
    assert row.unique_bytes >= 2 << 20
    assert leftovers() == []
    names = {name.rsplit("/", 1)[1] for name in objects()}
    assert names == {row.manifest_id, *row.edges.values_list("pack_id", flat=True)}
    forget_cache()
    world.resume(other)


def test_without_an_erasure_the_same_content_is_stored_once(world: World, session: Session) -> None:
    _, other = same_content(world, session)
    row = world.save(other)
    assert row.unique_bytes is not None
    assert row.unique_bytes < 1 << 20


def test_a_save_that_is_crossed_again_and_again_fails_in_the_end_and_the_machine_runs_on(
    world: World, session: Session, monkeypatch
) -> None:
    tried: list[int] = []

    def moved(*_: object) -> None:
        tried.append(len(tried))
        raise PacksMoved

    scribble(session, 2, seed=1)
    monkeypatch.setattr(publish, "_hold", moved)
    error_of(world.ask_save(session))
    assert len(tried) == 5
    assert runs(session)
    assert leftovers() == []
    session.refresh_from_db()
    assert session.runtime_state == "running"


@pytest.mark.parametrize("error", [PacksMoved, LeaseLost])
def test_a_save_that_was_not_published_in_the_end_leaves_no_object(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """No row names its objects, and none will: else they would lie there for days, as orphans."""
    world.save(session)
    there = objects()
    scribble(session, 2, seed=1)

    def refused(*_: object) -> None:
        raise error

    monkeypatch.setattr(publish, "_hold", refused)
    done(world.ask_save(session))
    assert objects() == there


def test_after_the_erasure_of_its_head_a_running_machine_saves_everything_anew(world: World, session: Session) -> None:
    """The older checkpoint does not lie under the pages that this process has written."""
    scribble(session, 1, seed=1)
    world.save(session)
    scribble(session, 1, seed=2)
    second = world.save(session, stop=True)
    world.resume(session)
    scribble(session, 1, seed=3, at_mib=64)
    third = world.save(session)
    erase.erase_checkpoint(second)
    erase.erase_checkpoint(third)
    last = world.save(session, stop=True)
    assert last.written_bytes is not None
    assert last.unique_bytes is not None
    assert last.unique_bytes >= 2 << 20
    memory = restored_memory(last)
    assert np.frombuffer(memory[8 << 20 : 9 << 20], np.uint8).tobytes() == np.random.default_rng(2).bytes(1 << 20)
    assert memory[64 << 20 : 65 << 20] == np.random.default_rng(3).bytes(1 << 20)


def restored_memory(row: Checkpoint) -> bytes:
    from checkpoints_app.services import key, storage
    from checkpoints_app.store import load_manifest, restore_image

    keys, backend = key.keys_to_read(row.account_id), storage.backend()
    manifest = load_manifest(backend, keys, row.account_id, row.manifest_id)
    target = bytearray(manifest.images["memory"].length_bytes)

    def sink(unit: int, data: memoryview) -> None:
        target[unit * 4096 : unit * 4096 + len(data)] = data

    restore_image(backend, keys, row.account_id, manifest, "memory", sink)
    return bytes(target)
