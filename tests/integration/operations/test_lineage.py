"""What a save is a delta to, and what it does when that one is not good any more."""

from pathlib import Path

import pytest

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import key
from checkpoints_app.store import AccountKeys
from sessions_app.models import Session
from tests.integration.operations.world import World, error_of, forget_cache, guest, objects, runs, scribble, store_directory
from workers.cache import files
from workers.cache.image_sum import data_extents


def object_named(name: str) -> Path:
    (path,) = (store_directory() / "objects").rglob(name)
    return path


def remove_object(name: str) -> None:
    object_named(name).unlink()


def damage_head(name: str) -> None:
    """One bit within the part of an object that says what it holds."""
    path = object_named(name)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)


def test_a_save_after_a_resume_from_an_older_checkpoint_is_a_delta_to_that_one(world: World, session: Session) -> None:
    guest(session, "echo one > note")
    scribble(session, 2, seed=1)
    first = world.save(session)
    guest(session, "echo two > note")
    scribble(session, 2, seed=2)
    world.save(session, stop=True)
    world.resume(session, first.id)
    scribble(session, 1, seed=3, at_mib=64)
    third = world.save(session, stop=True)
    assert third.parent_id == first.id
    assert third.unique_bytes is not None
    assert 1 << 20 <= third.unique_bytes < 2 << 20
    forget_cache()
    world.resume(session)
    assert guest(session, "cat note") == "one"


@pytest.fixture
def resumed(world: World, session: Session) -> Checkpoint:
    """The checkpoint from which the session's machine was resumed; there is data that only it holds."""
    guest(session, "echo kept > note")
    scribble(session, 2, seed=1)
    checkpoint = world.save(session, stop=True)
    world.resume(session)
    return checkpoint


def test_a_save_whose_parent_was_found_corrupt_stores_everything_anew_and_heals(
    world: World, session: Session, resumed: Checkpoint
) -> None:
    checkpoints.mark_corrupt(resumed, "found by a test", source="test")
    for name in objects():
        remove_object(name.rsplit("/", 1)[1])
    healed = world.save(session, stop=True)
    assert healed.unique_bytes is not None
    assert healed.unique_bytes >= 2 << 20
    forget_cache()
    world.resume(session)
    assert guest(session, "cat note") == "kept"


@pytest.mark.parametrize("what", ["manifest", "pack"])
@pytest.mark.parametrize(("how", "judged"), [("damaged", "corrupt"), ("missing", "published")])
def test_a_save_whose_parent_cannot_be_read_stores_everything_anew_and_calls_corrupt_what_was_seen_to_be(
    world: World, session: Session, resumed: Checkpoint, what: str, how: str, judged: str
) -> None:
    name = resumed.manifest_id if what == "manifest" else resumed.edges.get().pack_id
    damage_head(name) if how == "damaged" else remove_object(name)
    healed = world.save(session, stop=True)
    resumed.refresh_from_db()
    assert resumed.state == judged
    assert healed.unique_bytes is not None
    if what == "pack":  # without the manifest the packs are whole, and the account's content is found there
        assert healed.unique_bytes >= 2 << 20
    forget_cache()
    world.resume(session)
    assert guest(session, "cat note") == "kept"


def test_a_save_while_the_store_goes_away_fails_and_is_not_begun_anew_in_what_is_left_there(
    world: World, session: Session, resumed: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent is missing there; so would be every checkpoint that the account has."""
    directory, right = store_directory() / "objects", key.keys_to_save

    def then_unmount(account_id: str) -> AccountKeys:
        keys = right(account_id)
        directory.rename(directory.with_name("away"))
        directory.mkdir()
        return keys

    monkeypatch.setattr(key, "keys_to_save", then_unmount)
    error = error_of(world.ask_save(session))
    assert (error["code"], error["reason"]) == ("ks_save_failed", "unavailable")
    assert "mounted" in str(error["message"])
    assert list(directory.rglob("*")) == []
    assert list(session.checkpoints.filter(state="published")) == [resumed]
    assert runs(session)


def test_an_image_under_a_machine_that_was_damaged_is_not_passed_on(world: World, session: Session, resumed: Checkpoint) -> None:
    """Its bytes would enter the next image unseen, under the name of content that they are not."""
    image = files.place(files.MEMORY, resumed.memory_root)
    with open(image, "r+b") as file:
        extents = list(data_extents(file.fileno()))
        file.seek(extents[-1][0])
        file.write(b"damage" * 100)
    guest(session, "echo later > note")
    saved = world.save(session, stop=True)
    assert files.lookup(files.MEMORY, saved.memory_root) is None
    world.resume(session)
    assert guest(session, "cat note") == "later"
