"""Resumes that are refused or fail: nothing runs, the checkpoint is as it was, and the answer says what differs or what to do."""

import errno
import os
from pathlib import Path

import pytest
from django.db import DatabaseError
from pytest_django.fixtures import Settings

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import scrub, storage
from checkpoints_app.store import UnavailableError
from sessions_app.errors import NotRestorable
from sessions_app.models import Session
from sessions_app.services import lease as leases
from tests.integration.operations.world import (
    Died,
    World,
    damage,
    done,
    error_of,
    events,
    expire,
    forget_cache,
    guest,
    live_machines,
    runtime_directories,
    scribble,
    store_directory,
)
from workers.machine.fake.driver import FakeDriver
from workers.operations import waking
from workers.operations.settle import settle_host


@pytest.fixture
def parked(world: World, session: Session) -> Checkpoint:
    """The newest of two checkpoints of a session that is parked; both hold data of their own."""
    guest(session, "echo kept > note")
    scribble(session, 1, seed=1)
    world.save(session)
    scribble(session, 1, seed=2)
    return world.save(session, stop=True)


def object_of(checkpoint: Checkpoint) -> Path:
    """The newest pack of the checkpoint: no older one needs it."""
    root = store_directory() / "objects"
    pack = checkpoint.edges.exclude(pack__edges__checkpoint=checkpoint.parent).get().pack_id
    (found,) = root.rglob(pack)
    return found


def assert_parked_again(session: Session, reason: str = "resume_failed") -> None:
    session.refresh_from_db()
    assert (session.runtime_state, session.park_reason, session.host_id) == ("parked", reason, "")
    assert live_machines() == []
    assert runtime_directories() == []


def test_another_pin_is_refused_naming_each_field_that_differs(
    world: World, session: Session, parked: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = world.ask_resume(session)
    facts = FakeDriver.pin_facts

    def others(self: FakeDriver, architecture: str) -> dict[str, str]:
        return {**facts(self, architecture), "host_kernel": "9.9", "hypervisor_sha256": "other"}

    monkeypatch.setattr(FakeDriver, "pin_facts", others)
    monkeypatch.setattr(FakeDriver, "resume", must_not_be_called)
    error = error_of(operation)
    session.refresh_from_db()
    assert error["code"] == "ks_stack_incompatible"
    differences = error["differences"]
    assert isinstance(differences, dict)
    assert sorted(differences) == ["host_kernel", "hypervisor_sha256"]
    assert differences["host_kernel"] == {"checkpoint": os.uname().release, "host": "9.9"}
    assert "host_kernel, hypervisor_sha256" in str(error["message"])
    assert_parked_again(session, "requested")


def test_a_hypervisor_that_was_upgraded_under_the_worker_is_another_pin(
    world: World, session: Session, parked: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.resume(session)
    saved = world.save(session)
    facts = FakeDriver.pin_facts
    monkeypatch.setattr(FakeDriver, "pin_facts", lambda self, name: {**facts(self, name), "hypervisor_sha256": "upgraded"})
    again = world.save(session)
    assert again.pin_id == saved.pin_id, "the process that runs is the old one"
    booted = world.boot()
    assert booted.pin_digest != saved.pin_id


def test_stored_content_that_is_not_what_was_saved_is_refused_and_the_newest_valid_checkpoint_named(
    world: World, session: Session, parked: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_cache()
    damage(object_of(parked))
    with monkeypatch.context() as patch:
        patch.setattr(FakeDriver, "resume", must_not_be_called)
        error = error_of(world.ask_resume(session))
    parked.refresh_from_db()
    assert error["code"] == "ks_integrity"
    assert (error["checkpoint_id"], error["newest_valid_checkpoint_id"]) == (parked.id, parked.parent_id)
    assert parked.state == "corrupt"
    assert "checkpoint.corrupt" in events(session)
    assert_parked_again(session)
    world.resume(session, parked.parent_id)
    assert guest(session, "cat note") == "kept"


def test_a_missing_object_is_refused_but_condemns_nothing_for_a_store_that_is_not_mounted_looks_the_same(
    world: World, session: Session, parked: Checkpoint
) -> None:
    forget_cache()
    path = object_of(parked)
    away = path.rename(path.with_name("away"))
    error = error_of(world.ask_resume(session))
    parked.refresh_from_db()
    assert (error["code"], error["newest_valid_checkpoint_id"]) == ("ks_integrity", parked.parent_id)
    assert parked.state == "published"
    assert_parked_again(session)
    away.rename(path)
    world.resume(session, parked.id)
    assert guest(session, "cat note") == "kept"


def test_a_missing_object_is_looked_at_next_by_the_scrub_which_alone_calls_it_lost(
    world: World, session: Session, parked: Checkpoint
) -> None:
    forget_cache()
    object_of(parked).unlink()
    error = error_of(world.ask_resume(session))
    assert "operator" in str(error["next_action"])
    assert scrub.run().objects_done == 1
    parked.refresh_from_db()
    assert parked.state == "corrupt"


def test_a_store_that_is_not_mounted_is_named_as_that_and_accuses_no_checkpoint(world: World, session: Session, parked: Checkpoint) -> None:
    forget_cache()
    objects_directory = store_directory() / "objects"
    away = objects_directory.rename(objects_directory.with_name("away"))
    objects_directory.mkdir()
    error = error_of(world.ask_resume(session))
    parked.refresh_from_db()
    assert (error["code"], error["reason"], parked.state) == ("ks_start_failed", "unavailable", "published")
    assert "mounted" in str(error["message"])
    assert "No hypervisor was started" in str(error["message"])
    assert "older" not in str(error["next_action"])
    assert_parked_again(session)
    objects_directory.rmdir()
    away.rename(objects_directory)
    world.resume(session)
    assert scrub.run().objects_done == 0


def test_a_corrupt_checkpoint_is_not_tried_again(world: World, session: Session, parked: Checkpoint) -> None:
    forget_cache()
    damage(object_of(parked))
    error_of(world.ask_resume(session))
    with pytest.raises(NotRestorable, match="corrupt"):
        world.ask_resume(session)


def test_a_master_key_that_is_not_the_accounts_marks_nothing_as_corrupt(
    world: World, session: Session, parked: Checkpoint, settings: Settings
) -> None:
    forget_cache()
    right = settings.KEEPSTATE_MASTER_KEY
    settings.KEEPSTATE_MASTER_KEY = bytes(32)
    error = error_of(world.ask_resume(session))
    parked.refresh_from_db()
    assert error["code"] == "ks_integrity"
    assert "master key" in str(error["message"])
    assert parked.state == "published"
    assert_parked_again(session)
    settings.KEEPSTATE_MASTER_KEY = right
    world.resume(session)


def test_a_hypervisor_that_refuses_the_state_parks_the_session_again(world: World, session: Session, parked: Checkpoint) -> None:
    world.faults.resume_fails = "the device state was not loaded"
    error = error_of(world.ask_resume(session))
    assert error["code"] == "ks_start_failed"
    assert "the device state was not loaded" in str(error["message"])
    assert_parked_again(session)
    world.faults.resume_fails = None
    world.resume(session)
    assert guest(session, "cat note") == "kept"


def test_a_guest_that_does_not_answer_is_ended_and_the_session_parked_again(world: World, session: Session, parked: Checkpoint) -> None:
    world.faults.silent_guest = True
    error = error_of(world.ask_resume(session))
    assert error["code"] == "ks_start_failed"
    assert_parked_again(session)


@pytest.mark.parametrize("step", ["images_ready", "loaded", "running", "greeted"])
def test_whatever_goes_wrong_on_the_way_leaves_no_process_and_the_session_parked(
    world: World, session: Session, parked: Checkpoint, step: str
) -> None:
    def broken() -> None:
        raise OSError(errno.EIO, "input/output error")

    world.at(step, broken)
    error_of(world.ask_resume(session))
    assert_parked_again(session)
    world.resume(session)


def test_a_commit_that_fails_after_the_machine_was_started_ends_it(
    world: World, session: Session, parked: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise DatabaseError("a rule of the database refused the commit")

    with monkeypatch.context() as patch:
        patch.setattr(leases, "succeed", broken)
        error_of(world.ask_resume(session))
    assert_parked_again(session)


@pytest.mark.parametrize(("raised", "reason"), [(OSError(errno.ENOSPC, "No space left on device"), "no_space"), (None, "unavailable")])
def test_a_host_that_cannot_assemble_says_why_and_accuses_no_content(
    world: World, session: Session, parked: Checkpoint, monkeypatch: pytest.MonkeyPatch, raised: OSError | None, reason: str
) -> None:
    forget_cache()

    def broken(*_: object, **__: object) -> None:
        raise raised or UnavailableError("the disk did not answer")

    with monkeypatch.context() as patch:
        patch.setattr(type(storage.backend()), "stream", broken)
        error = error_of(world.ask_resume(session))
    parked.refresh_from_db()
    assert (error["code"], error["reason"]) == ("ks_start_failed", reason)
    assert parked.state == "published"
    assert_parked_again(session)


def test_an_attempt_that_died_after_it_found_the_corruption_is_followed_by_the_same_refusal(
    world: World, session: Session, parked: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_cache()
    damage(object_of(parked))
    operation = world.ask_resume(session)

    def died(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(waking, "give_back", died)
        with pytest.raises(Died):
            done(operation)
    expire(operation)
    error_of(operation)
    assert_parked_again(session)


def test_a_host_that_settles_during_a_resume_does_not_touch_it(world: World, session: Session, parked: Checkpoint) -> None:
    for step in ("resume_claimed", "loaded", "greeted"):
        world.at(step, settle_host)
    world.resume(session)
    assert guest(session, "cat note") == "kept"


def must_not_be_called(*_: object, **__: object) -> None:
    raise AssertionError("a hypervisor was started")
