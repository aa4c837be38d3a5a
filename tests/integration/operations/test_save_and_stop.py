"""Save with `stop`: the machine is ended after its save is published, never before."""

import pytest

from sessions_app.models import Session
from tests.integration.operations.world import (
    Died,
    World,
    done,
    events,
    expire,
    guest,
    leftovers,
    live_machines,
    runs,
    runtime_directories,
    succeeded,
)
from workers.operations.settle import settle_host
from workers.sweep import sweep


def test_it_parks_the_session_and_leaves_no_process_and_no_directory(world: World, session: Session) -> None:
    guest(session, "echo kept > note")
    checkpoint = world.save(session, stop=True)
    assert (session.runtime_state, session.park_reason, session.host_id) == ("parked", "requested", "")
    assert session.head_checkpoint_id == checkpoint.id
    assert checkpoint.boundary == "stop"
    assert runtime_directories() == []
    assert leftovers() == []
    assert events(session)[-3:] == ["checkpoint.published", "session.stopping", "session.parked"]
    world.resume(session)
    assert guest(session, "cat note") == "kept"


def test_the_machine_stands_still_and_lives_until_the_save_is_published(world: World, session: Session) -> None:
    seen: list[tuple[str, bool, int]] = []

    def look() -> None:
        session.refresh_from_db()
        seen.append((session.runtime_state, runs(session), len(live_machines())))

    world.at("before_publish", look)
    world.at("published", look)
    world.save(session, stop=True)
    assert seen == [("checkpointing", False, 1), ("stopping", False, 1)]


def test_an_attempt_that_finds_its_checkpoint_published_only_finishes_the_stop(world: World, session: Session) -> None:
    operation = world.ask_save(session, stop=True)
    world.die_at("published")
    with pytest.raises(Died):
        done(operation)
    expire(operation)
    assert not runs(session), "what was saved last is what the guest did last"
    succeeded(operation)
    session.refresh_from_db()
    assert session.runtime_state == "parked"
    assert session.checkpoints.get().state == "published"
    assert operation.response is not None
    assert operation.response["checkpoint_id"] == session.head_checkpoint_id
    assert live_machines() == []


def test_an_attempt_that_died_before_publication_is_made_again_from_the_running_machine(world: World, session: Session) -> None:
    operation = world.ask_save(session, stop=True)
    world.die_at("before_publish")
    with pytest.raises(Died):
        done(operation)
    expire(operation)
    succeeded(operation)
    session.refresh_from_db()
    assert session.runtime_state == "parked"
    assert sorted(session.checkpoints.values_list("state", flat=True)) == ["failed", "published"]


def test_a_stop_whose_worker_was_lost_for_good_is_finished_by_the_host(world: World, session: Session) -> None:
    operation = world.ask_save(session, stop=True)
    type(operation).objects.filter(id=operation.id).update(max_attempts=1)
    world.die_at("published")
    with pytest.raises(Died):
        done(operation)
    expire(operation)
    sweep()
    settle_host()
    session.refresh_from_db()
    assert session.runtime_state == "parked"
    assert live_machines() == []
