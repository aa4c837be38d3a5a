"""Resume: the saved moment goes on, in a new epoch."""

from pathlib import Path

import pytest
from django.db import DatabaseError

from sessions_app.models import Session
from tests.integration.operations.world import (
    HOST,
    World,
    error_of,
    events,
    forget_cache,
    guest,
    live_machines,
    pid_of,
    runtime_directories,
    scribble,
)
from workers.cache import files
from workers.cache.image_sum import data_extents
from workers.host.note import read_note


def test_the_work_goes_on_in_a_new_epoch_at_the_checkpoint_that_was_resumed(world: World, session: Session) -> None:
    guest(session, "echo one > note")
    first = world.save(session)
    guest(session, "echo two > note")
    second = world.save(session, stop=True)
    assert session.head_checkpoint_id == second.id
    world.resume(session, first.id)
    assert (session.runtime_state, session.epoch, session.host_id) == ("running", 2, HOST)
    assert (session.head_checkpoint_id, session.head_checkpoint_at) == (first.id, first.published_at)
    assert guest(session, "cat note") == "one"
    assert events(session)[-2:] == ["session.resuming", "session.resumed"]


def test_the_response_carries_the_figures(world: World, session: Session) -> None:
    checkpoint = world.save(session, stop=True)
    hot = world.resume(session).response
    assert hot is not None
    assert (hot["checkpoint_id"], hot["images_from"], hot["execution_epoch"]) == (checkpoint.id, "cached", 2)
    assert 0 < hot["running_seconds"] <= hot["answered_seconds"]


def test_a_clock_that_could_not_be_set_is_told_in_the_history_of_a_session_that_runs(world: World, session: Session) -> None:
    world.save(session, stop=True)
    world.faults.clock_stays_wrong = True
    world.resume(session)
    assert session.runtime_state == "running"
    assert events(session)[-2:] == ["session.resumed", "session.clock_not_set"]


def test_a_host_that_has_nothing_assembled_reads_the_store(world: World, session: Session) -> None:
    guest(session, "echo kept > note")
    scribble(session, 2, seed=1)
    world.save(session, stop=True)
    forget_cache()
    operation = world.resume(session)
    assert operation.response is not None
    assert operation.response["images_from"] == "host"
    assert guest(session, "cat note") == "kept"


def test_a_cached_image_that_was_damaged_is_dropped_and_rebuilt(world: World, session: Session) -> None:
    guest(session, "echo kept > note")
    scribble(session, 2, seed=1)
    checkpoint = world.save(session, stop=True)
    image = files.place(files.MEMORY, checkpoint.memory_root)
    damage_data(image)
    operation = world.resume(session)
    assert operation.response is not None
    assert operation.response["images_from"] == "host"
    assert guest(session, "cat note") == "kept"
    assert files.lookup(files.MEMORY, checkpoint.memory_root) == image


def test_a_session_that_runs_is_not_resumed_and_its_machine_is_not_touched(world: World, session: Session) -> None:
    world.save(session)
    pid = pid_of(session)
    error = error_of(world.ask_resume(session))
    session.refresh_from_db()
    assert error["code"] == "ks_conflict"
    assert (session.runtime_state, session.epoch, pid_of(session)) == ("running", 1, pid)
    assert events(session)[-1] == "session.running"


def test_a_session_whose_row_says_running_and_whose_machine_is_dead_resumes(world: World, session: Session) -> None:
    guest(session, "echo kept > note")
    world.save(session)
    world.kill(session)
    world.resume(session)
    assert guest(session, "cat note") == "kept"
    assert runtime_directories() == [f"{session.id}.2"]


def test_a_machine_knows_which_images_it_was_started_from(world: World, session: Session) -> None:
    checkpoint = world.save(session, stop=True)
    world.resume(session)
    note = read_note(world.runtime(session))
    assert note["checkpoint"] == checkpoint.id
    assert set(note["images"]) == {checkpoint.memory_root, checkpoint.content_digest}


def test_one_machine_runs_after_many_resumes(world: World, session: Session) -> None:
    world.save(session)
    for _ in range(3):
        world.kill(session)
        world.resume(session)
    assert live_machines() == [f"{session.id}.4"]


def damage_data(image: Path) -> None:
    """Flip a bit where the sparse file has data."""
    with open(image, "r+b") as file:
        start, _ = next(data_extents(file.fileno()))
        file.seek(start)
        byte = file.read(1)[0]
        file.seek(start)
        file.write(bytes([byte ^ 1]))


def test_trouble_with_the_clock_after_the_resume_ends_no_machine(world: World, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_database(*_: object, **__: object) -> None:
        raise DatabaseError("the connection is gone")

    world.save(session, stop=True)
    world.faults.clock_stays_wrong = True
    monkeypatch.setattr("workers.operations.clock._tell", no_database)
    world.resume(session)
    assert session.runtime_state == "running"
    assert live_machines() == [f"{session.id}.2"]


def test_a_machine_that_was_ended_while_its_clock_was_awaited_has_no_wrong_clock(world: World, session: Session) -> None:
    world.save(session, stop=True)
    world.faults.dies_before_its_clock = True
    world.resume(session)
    assert "session.clock_not_set" not in events(session)
