"""The database closes the worker's connection in the middle: what follows is written on a new one."""

import pytest
from django.db import connection

from sessions_app.models import Session
from tests.integration.operations.world import World, error_of, guest, leftovers, live_machines, runs
from tests.support.threads import at_once


def close_ours() -> None:
    """As a server that restarts does."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()

    def terminate(_: int) -> bool:
        with connection.cursor() as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
            return bool(other.fetchone()[0])

    assert at_once(1, terminate) == [True]


@pytest.mark.parametrize("step", ["row_written", "packs_durable", "before_publish"])
def test_a_save_fails_cleanly_and_the_machine_runs_on(world: World, session: Session, step: str) -> None:
    previous = world.save(session)
    world.at(step, close_ours)
    error = error_of(world.ask_save(session))
    session.refresh_from_db()
    assert error["code"] == "ks_save_failed"
    assert (session.runtime_state, session.head_checkpoint_id) == ("running", previous.id)
    assert session.checkpoints.filter(state="published").count() == 1
    assert not session.checkpoints.filter(state__in=["capturing", "uploading"]).exists()
    assert runs(session)
    assert leftovers() == []


@pytest.mark.parametrize("step", ["resume_claimed", "images_ready", "loaded", "greeted"])
def test_a_resume_fails_cleanly_and_can_be_asked_for_again(world: World, session: Session, step: str) -> None:
    guest(session, "echo kept > note")
    world.save(session, stop=True)
    world.at(step, close_ours)
    error_of(world.ask_resume(session))
    session.refresh_from_db()
    assert session.runtime_state == "parked"
    assert live_machines() == []
    world.resume(session)
    assert guest(session, "cat note") == "kept"
