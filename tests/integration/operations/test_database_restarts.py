"""The database closes the worker's connection in the middle: the attempt ends there, and the next one does the work. Nobody is asked."""

import pytest
from django.db import connection

from checkpoints_app.models import Pin
from sessions_app.models import Operation, Session
from sessions_app.services import activity
from tests.integration.operations.world import World, done, error_of, guest, leftovers, live_machines, runs, succeeded
from tests.support.threads import at_once
from workers.host.pins import pin_here


def close_ours() -> None:
    """As a server that restarts does."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()

    def terminate(_: int) -> bool:
        with connection.cursor() as other:
            other.execute("SELECT pg_terminate_backend(%s, 30000)", [pid])
            return bool(other.fetchone()[0])

    assert at_once(1, terminate) == [True]


def let_go(operation: Operation) -> Operation:
    """The operation, whose attempt has ended without a word on how the work did."""
    done(operation)
    assert (operation.state, operation.lease_token, operation.error) == ("running", None, None)
    return operation


@pytest.mark.parametrize("step", ["row_written", "packs_durable", "before_publish"])
def test_a_save_is_done_again_at_once(world: World, session: Session, step: str) -> None:
    previous = world.save(session)
    world.at(step, close_ours)
    operation = succeeded(let_go(world.ask_save(session)))
    session.refresh_from_db()
    assert (session.runtime_state, operation.attempt) == ("running", 2)
    assert session.head_checkpoint_id not in ("", previous.id)
    assert session.checkpoints.filter(state="published").count() == 2
    assert not session.checkpoints.filter(state__in=["capturing", "uploading"]).exists()
    assert runs(session)
    assert leftovers() == []


@pytest.mark.parametrize("step", ["resume_claimed", "images_ready", "loaded", "greeted"])
def test_a_resume_is_done_again_at_once(world: World, session: Session, step: str) -> None:
    guest(session, "echo kept > note")
    world.save(session, stop=True)
    world.at(step, close_ours)
    succeeded(let_go(world.ask_resume(session)))
    session.refresh_from_db()
    assert session.runtime_state == "running"
    assert len(live_machines()) == 1
    assert guest(session, "cat note") == "kept"


def test_a_boot_is_done_again_at_once(world: World) -> None:
    world.at("booted", close_ours)
    operation = succeeded(let_go(world.ask_boot()))
    assert operation.session.runtime_state == "running"
    assert len(live_machines()) == 1


def test_the_last_attempt_says_that_there_is_none_left(world: World, session: Session) -> None:
    world.save(session)
    operation = world.ask_save(session)
    Operation.objects.filter(id=operation.id).update(max_attempts=1)
    world.at("before_publish", close_ours)
    assert "The database did not answer" in str(error_of(operation)["message"])


def test_a_boot_whose_last_attempt_ended_before_it_had_a_host_leaves_no_session_that_waits_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(architecture: str) -> Pin:
        close_ours()
        return pin_here(architecture)

    monkeypatch.setattr("workers.operations.boot.pin_here", cut)
    operation = world.ask_boot()
    Operation.objects.filter(id=operation.id).update(max_attempts=1)
    assert "The database did not answer" in str(error_of(operation)["message"])
    assert (operation.session.runtime_state, operation.session.failure) == ("failed", operation.error)


def test_what_a_command_came_to_is_not_lost(world: World, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, touch = world.ask_exec(session, "sh", "-c", "echo once >> log; cat log"), activity.touch

    def cut_once(session: Session) -> None:
        monkeypatch.setattr(activity, "touch", touch)
        close_ours()
        touch(session)

    monkeypatch.setattr(activity, "touch", cut_once)
    operation = succeeded(asked)
    assert operation.response is not None
    assert (operation.attempt, operation.response["stdout"]) == (1, "once\n")
