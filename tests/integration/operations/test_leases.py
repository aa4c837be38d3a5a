"""Whose work it is: one effect for one request, whoever dies, comes late or rings twice."""

import time
from collections.abc import Callable

import pytest
from django.db import connection

from sessions_app.models import Operation, Session
from sessions_app.services import dispatch
from sessions_app.services import lease as leases
from tests.integration.operations.world import (
    Died,
    World,
    done,
    expire,
    guest,
    live_machines,
    machine_of,
    pid_of,
    runs,
    succeeded,
)
from tests.support.threads import at_once
from workers.host.identity import instance
from workers.models import Host
from workers.operations.keeper import Keeper
from workers.operations.run import _guarded, run
from workers.operations.work import Work
from workers.sweep import UNHEARD, sweep


def steal(operation: Operation) -> Callable[[], None]:
    """Another worker takes the operation over at that moment."""

    def act() -> None:
        expire(operation)
        assert leases.claim(operation.id, "thief") is not None
        connection.close()

    return act


@pytest.mark.parametrize("step", ["row_written", "packs_durable", "before_publish"])
def test_a_worker_that_lost_its_lease_during_a_save_publishes_nothing(world: World, session: Session, step: str) -> None:
    operation = world.ask_save(session)
    world.at(step, steal(operation))
    done(operation)
    session.refresh_from_db()
    assert operation.state == "running", "it is the thief's now"
    assert session.head_checkpoint_id == ""
    assert not session.checkpoints.filter(state="published").exists()
    expire(operation)
    succeeded(operation)
    session.refresh_from_db()
    assert session.runtime_state == "running"
    assert [row.id for row in session.checkpoints.filter(state="published")] == [session.head_checkpoint_id]


def test_a_late_worker_whose_save_fails_does_not_set_the_new_owners_machine_running(world: World, session: Session) -> None:
    """The new owner may be in its stopped window: a processor that runs there would tear the moment apart."""
    operation = world.ask_save(session)

    def lose_and_fail() -> None:
        steal(operation)()
        machine_stop()
        raise OSError("the late worker's own failure")

    machine = machine_of(session)
    machine_stop = machine.stop
    world.at("packs_durable", lose_and_fail)
    done(operation)
    assert not runs(session)
    assert not session.checkpoints.filter(state="failed").exists(), "the row of an attempt is its successor's to judge"


@pytest.mark.parametrize("step", ["resume_claimed", "loaded", "running", "greeted"])
def test_a_worker_that_lost_its_lease_during_a_resume_leaves_no_machine_of_its_own(world: World, session: Session, step: str) -> None:
    guest(session, "echo kept > note")
    world.save(session, stop=True)
    operation = world.ask_resume(session)
    world.at(step, steal(operation))
    done(operation)
    assert operation.state == "running"
    assert live_machines() == []
    expire(operation)
    succeeded(operation)
    session.refresh_from_db()
    assert len(live_machines()) == 1
    assert guest(session, "cat note") == "kept"


def test_a_late_resume_does_not_end_the_machine_that_its_successor_started(world: World, session: Session) -> None:
    world.save(session, stop=True)
    operation = world.ask_resume(session)
    late = leases.claim(operation.id, "late")
    assert late is not None
    stale = Operation.objects.select_related("session").get(id=operation.id)
    expire(operation)
    succeeded(operation)
    session.refresh_from_db()
    pid = pid_of(session)
    work_on(stale, late)
    assert pid_of(session) == pid
    assert runs(session)


def test_a_late_stop_does_not_end_the_machine_of_a_later_resume(world: World, session: Session) -> None:
    operation = world.ask_save(session, stop=True)

    def others_finish_and_resume() -> None:
        expire(operation)
        succeeded(Operation.objects.get(id=operation.id))
        session.refresh_from_db()
        world.resume(session)

    world.at("published", others_finish_and_resume)
    done(operation)
    session.refresh_from_db()
    assert (session.runtime_state, session.epoch) == ("running", 2)
    assert runs(session)


def test_a_late_boot_does_not_end_the_machine_that_its_successor_started(world: World) -> None:
    operation = world.ask_boot()
    late = leases.claim(operation.id, "late")
    assert late is not None
    stale = Operation.objects.select_related("session").get(id=operation.id)
    expire(operation)
    session = succeeded(operation).session
    pid = pid_of(session)
    work_on(stale, late)
    session.refresh_from_db()
    assert (session.runtime_state, pid_of(session)) == ("running", pid)


@pytest.mark.parametrize("kind", ["boot", "save", "resume"])
def test_a_doubled_doorbell_has_one_effect(world: World, kind: str) -> None:
    operation = world.ask_boot()
    if kind != "boot":
        session = succeeded(operation).session
        world.save(session, stop=kind == "resume")
        operation = world.ask_save(session) if kind == "save" else world.ask_resume(session)
    at_once(2, lambda _: run(operation.id))
    operation.refresh_from_db()
    assert (operation.state, operation.attempt) == ("succeeded", 1)
    assert len(live_machines()) == 1
    if kind == "save":
        assert operation.session.checkpoints.filter(operation_id=operation.id).count() == 1


def test_a_lost_doorbell_is_rung_again_by_the_sweep(world: World, session: Session, doorbells: list[tuple[str, ...]]) -> None:
    operation = world.ask_save(session)
    Operation.objects.filter(id=operation.id).update(due_at=operation.due_at - 2 * UNHEARD)
    doorbells.clear()
    sweep()
    assert doorbells == [(dispatch.RUN_OPERATION, operation.queue, operation.id)]
    succeeded(operation)


@pytest.mark.parametrize("step", ["row_written", "packs_durable", "before_publish", "published"])
def test_a_save_whose_worker_died_is_completed_by_a_second_attempt(
    world: World, session: Session, doorbells: list[tuple[str, ...]], step: str
) -> None:
    operation = world.ask_save(session, stop=step == "published")
    world.die_at(step)
    with pytest.raises(Died):
        run(operation.id)
    expire(operation)
    doorbells.clear()
    sweep()
    assert doorbells == [(dispatch.RUN_OPERATION, operation.queue, operation.id)]
    succeeded(operation)
    assert operation.attempt == 2
    assert session.checkpoints.filter(state="published").count() == 1


@pytest.mark.parametrize("step", ["resume_claimed", "images_ready", "loaded", "running", "greeted"])
def test_a_resume_whose_worker_died_is_completed_by_a_second_attempt(world: World, session: Session, step: str) -> None:
    guest(session, "echo kept > note")
    world.save(session, stop=True)
    operation = world.ask_resume(session)
    world.die_at(step)
    with pytest.raises(Died):
        run(operation.id)
    expire(operation)
    succeeded(operation)
    session.refresh_from_db()
    assert live_machines() == [f"{session.id}.{session.epoch}"]
    assert guest(session, "cat note") == "kept"


def test_a_second_attempt_on_another_host_takes_the_session_there(world: World, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    world.save(session, stop=True)
    operation = world.ask_resume(session)
    world.die_at("resume_claimed")
    with pytest.raises(Died):
        run(operation.id)
    session.refresh_from_db()
    Session.objects.filter(id=session.id).update(host_id="h-another")  # the first attempt was made there
    expire(operation)
    succeeded(operation)
    session.refresh_from_db()
    assert session.host_id == "h-one"


def spend(operation: Operation) -> None:
    """Its only attempt was made by a worker that died."""
    Operation.objects.filter(id=operation.id).update(max_attempts=1)
    assert leases.claim(operation.id, "dead") is not None
    expire(operation)


def test_a_save_whose_attempts_are_spent_has_failed(world: World, session: Session) -> None:
    operation = world.ask_save(session)
    spend(operation)
    sweep()
    operation.refresh_from_db()
    assert operation.state == "failed"
    assert operation.error is not None
    assert "intact" in operation.error["message"]


def test_a_command_whose_worker_died_is_not_run_again_and_says_that_its_outcome_is_unknown(world: World, session: Session) -> None:
    operation = world.ask_exec(session, "true")
    assert operation.max_attempts == 1
    spend(operation)
    sweep()
    operation.refresh_from_db()
    assert operation.state == "reconciliation_required"
    run(operation.id)
    assert Operation.objects.get(id=operation.id).attempt == 1


def test_a_delete_whose_attempts_are_spent_does_not_claim_that_checkpoints_are_intact(world: World, session: Session) -> None:
    operation = world.ask_delete(session)
    spend(operation)
    sweep()
    operation.refresh_from_db()
    assert operation.error is not None
    assert "intact" not in operation.error["message"]


def test_a_boot_whose_attempts_are_spent_before_a_host_was_noted_fails_its_session(world: World) -> None:
    operation = world.ask_boot()
    spend(operation)
    sweep()
    operation.refresh_from_db()
    operation.session.refresh_from_db()
    assert operation.state == "failed"
    assert operation.session.runtime_state == "failed"
    assert operation.session.failure is not None


def test_an_installation_that_was_replaced_under_its_hosts_id_takes_up_nothing_of_its_successors(world: World, session: Session) -> None:
    """It stood still meanwhile, hears the host's doorbells for some seconds more, and sees none of the machines that run there now."""
    operation = world.ask_save(session)
    Host.objects.update(instance="another")
    done(operation)
    session.refresh_from_db()
    assert (operation.state, session.runtime_state) == ("queued", "running")
    Host.objects.update(instance=instance())
    succeeded(operation)


def work_on(operation: Operation, lease: leases.Lease) -> None:
    """What a worker does that claimed long ago and comes to itself only now."""
    with Keeper(lease, time.monotonic()) as keeper:
        _guarded(Work(operation, operation.session, lease, keeper))
