"""The sweep: rings for what is due and for nothing else."""

from datetime import timedelta

import pytest
from django.db.models import F

from sessions_app.models import Operation
from sessions_app.services import dispatch
from sessions_app.services import lease as leases
from tests.support.fleet import HOST, Tenant, boot_asked, session_row
from workers import sweep as sweeping
from workers.host.liveness import silent_after
from workers.models import Host
from workers.sweep import UNHEARD, ring_hosts, sweep

Doorbells = list[tuple[str, ...]]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operation(owner: Tenant, doorbells: Doorbells) -> Operation:
    made = boot_asked(owner.account)
    doorbells.clear()
    return made


def older(operation: Operation, by: timedelta) -> None:
    Operation.objects.filter(id=operation.id).update(due_at=F("due_at") - by)


def silence_for(length: timedelta) -> None:
    Host.objects.update(heartbeat_at=F("heartbeat_at") - length)


def bell(operation: Operation) -> tuple[str, ...]:
    return dispatch.RUN_OPERATION, operation.queue, operation.id


def test_a_doorbell_that_was_just_rung_is_not_rung_again(operation: Operation, doorbells: Doorbells) -> None:
    sweep()
    assert doorbells == []


def test_a_doorbell_that_nobody_heard_is_rung_again_until_it_is(operation: Operation, doorbells: Doorbells) -> None:
    older(operation, UNHEARD)
    sweep()
    sweep()
    assert doorbells == [bell(operation)] * 2
    leases.claim(operation.id, "worker")
    sweep()
    assert len(doorbells) == 2


def test_what_is_due_later_waits(operation: Operation, doorbells: Doorbells) -> None:
    older(operation, -timedelta(hours=1))
    sweep()
    assert doorbells == []


def test_a_lease_that_expired_is_rung_for_and_one_that_lives_is_not(operation: Operation, doorbells: Doorbells) -> None:
    leases.claim(operation.id, "worker")
    sweep()
    assert doorbells == []
    Operation.objects.update(lease_expires_at=F("lease_expires_at") - timedelta(hours=1))
    sweep()
    assert doorbells == [bell(operation)]


def test_two_sweeps_give_an_operation_up_once(operation: Operation, doorbells: Doorbells) -> None:
    Operation.objects.update(max_attempts=1)
    leases.claim(operation.id, "worker")
    Operation.objects.update(lease_expires_at=F("lease_expires_at") - timedelta(hours=1))
    sweep()
    sweep()
    operation.refresh_from_db()
    operation.session.refresh_from_db()
    assert (operation.state, operation.session.runtime_state) == ("failed", "failed")
    assert list(operation.session.events.values_list("type", flat=True)) == ["session.created", "session.failed"]
    assert doorbells == []


def test_a_queue_that_nobody_reads_is_not_filled_with_doorbells(operation: Operation, doorbells: Doorbells) -> None:
    older(operation, UNHEARD)
    silence_for(silent_after() + timedelta(seconds=1))
    sweep()
    assert doorbells == []
    Host.objects.update(heartbeat_at=F("heartbeat_at") + silent_after() + timedelta(seconds=1))
    sweep()
    assert doorbells == [bell(operation)]


def test_work_that_waits_for_a_lost_host_does_not_keep_other_work_from_being_rung(
    owner: Tenant, operation: Operation, doorbells: Doorbells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "BATCH", 2)
    for _ in range(2):
        lost = session_row(owner.account, host_id="h-lost")
        waiting = Operation.objects.create(account=owner.account, session=lost, kind="checkpoint", queue="host.h-lost")
        older(waiting, timedelta(days=1))
    older(operation, UNHEARD)
    sweep()
    assert doorbells == [bell(operation)]


@pytest.mark.parametrize("queue", [dispatch.CONTROL_QUEUE, f"host.{HOST}", f"io.{HOST}"])
def test_every_queue_of_a_live_host_is_rung(owner: Tenant, operation: Operation, doorbells: Doorbells, queue: str) -> None:
    Operation.objects.update(queue=queue)
    older(operation, UNHEARD)
    sweep()
    assert doorbells == [(dispatch.RUN_OPERATION, queue, operation.id)]


@pytest.mark.parametrize("silent", [timedelta(0), timedelta(minutes=11), timedelta(days=3)])
def test_a_host_is_asked_to_look_after_itself_even_after_long_silence(owner: Tenant, doorbells: Doorbells, silent: timedelta) -> None:
    """The silence may be the sweeper's own: a broker that was down, a laptop that slept."""
    silence_for(silent)
    ring_hosts()
    assert doorbells == [(dispatch.OBSERVE_HOST, f"io.{HOST}")]


def test_a_host_that_has_been_away_for_a_month_is_forgotten(owner: Tenant, doorbells: Doorbells) -> None:
    silence_for(timedelta(days=31))
    ring_hosts()
    assert doorbells == []
