"""Leases: claimed once, fenced by token, renewed by their owner alone, given up only when spent. Real PostgreSQL, its clock."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from sessions_app.errors import Internal, SaveFailed
from sessions_app.models import Operation
from sessions_app.services import lease as leases
from sessions_app.services.lease import Lease, LeaseLost
from tests.support.fleet import Tenant, boot_asked
from tests.support.threads import at_once


@pytest.fixture
def operation(owner: Tenant) -> Operation:
    return boot_asked(owner.account)


def _claim(operation: Operation) -> Lease:
    lease = leases.claim(operation.id, "worker")
    assert lease is not None
    return lease


def _expire(operation: Operation) -> None:
    Operation.objects.filter(id=operation.id).update(lease_expires_at=Now() - timedelta(seconds=1))


def test_a_queued_operation_is_claimed_once(operation: Operation) -> None:
    assert _claim(operation).attempt == 1
    assert leases.claim(operation.id, "other") is None
    operation.refresh_from_db()
    assert (operation.state, operation.lease_owner) == ("running", "worker")


def test_what_is_not_due_is_not_claimed(operation: Operation) -> None:
    Operation.objects.filter(id=operation.id).update(due_at=Now() + timedelta(minutes=1))
    assert leases.claim(operation.id, "worker") is None


def test_an_operation_that_is_not_there_is_not_claimed(owner: Tenant) -> None:
    assert leases.claim("op_" + "0" * 24, "worker") is None


def test_an_expired_lease_passes_to_the_next_with_a_larger_token(operation: Operation) -> None:
    first = _claim(operation)
    _expire(operation)
    second = _claim(operation)
    assert second.token > first.token
    assert second.attempt == 2


def test_the_start_is_kept_over_attempts(operation: Operation) -> None:
    _claim(operation)
    operation.refresh_from_db()
    started = operation.started_at
    _expire(operation)
    _claim(operation)
    operation.refresh_from_db()
    assert operation.started_at == started


def test_who_lost_the_lease_can_write_nothing(operation: Operation) -> None:
    late = _claim(operation)
    _expire(operation)
    _claim(operation)
    for write in (
        lambda: leases.renew(late),
        lambda: leases.report(late, percent=50),
        lambda: leases.succeed(late, {}, 200),
        lambda: leases.fail(late, SaveFailed("late")),
    ):
        with pytest.raises(LeaseLost):
            write()
    with pytest.raises(LeaseLost), transaction.atomic():
        leases.require(late)
    operation.refresh_from_db()
    assert (operation.state, operation.progress, operation.response, operation.error) == ("running", {}, None, None)


def test_an_expired_lease_that_nobody_took_is_renewed(operation: Operation) -> None:
    lease = _claim(operation)
    _expire(operation)
    leases.renew(lease)
    assert leases.claim(operation.id, "other") is None


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_an_end_is_final(operation: Operation, end: str) -> None:
    lease = _claim(operation)
    leases.succeed(lease, {"id": "x"}, 201) if end == "succeed" else leases.fail(lease, SaveFailed("no", next_action="again"))
    operation.refresh_from_db()
    assert operation.finished_at is not None
    assert operation.lease_expires_at is None
    assert (operation.response is None) == (end == "fail")
    assert leases.claim(operation.id, "other") is None
    with pytest.raises(LeaseLost):
        leases.succeed(lease, {}, 200)


def test_spent_attempts_are_not_claimed_again(operation: Operation) -> None:
    for _ in range(operation.max_attempts):
        _claim(operation)
        _expire(operation)
    assert leases.claim(operation.id, "worker") is None


def test_an_operation_with_attempts_left_is_not_given_up(operation: Operation) -> None:
    _claim(operation)
    _expire(operation)
    operation.refresh_from_db()
    assert not leases.give_up(operation)


def test_a_live_lease_is_not_given_up(operation: Operation) -> None:
    Operation.objects.filter(id=operation.id).update(max_attempts=1)
    _claim(operation)
    operation.refresh_from_db()
    assert not leases.give_up(operation)


def test_what_is_spent_and_dead_is_given_up_once_with_its_reason(operation: Operation) -> None:
    Operation.objects.filter(id=operation.id).update(max_attempts=1)
    lease = _claim(operation)
    _expire(operation)
    operation.refresh_from_db()
    assert leases.give_up(operation)
    assert not leases.give_up(operation)
    operation.refresh_from_db()
    assert operation.error
    assert (operation.state, operation.http_status, operation.error["code"]) == ("failed", Internal.status, "ks_internal")
    with pytest.raises(LeaseLost):
        leases.succeed(lease, {}, 200)


def test_a_lease_that_was_renewed_since_it_was_read_is_not_given_up(operation: Operation) -> None:
    Operation.objects.filter(id=operation.id).update(max_attempts=1)
    lease = _claim(operation)
    _expire(operation)
    operation.refresh_from_db()
    leases.renew(lease)
    assert not leases.give_up(operation)


@pytest.mark.django_db(transaction=True)
def test_of_many_claims_at_once_one_wins(operation: Operation) -> None:
    won = at_once(8, lambda number: leases.claim(operation.id, f"worker-{number}"))
    assert sum(lease is not None for lease in won) == 1
    operation.refresh_from_db()
    assert operation.attempt == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_claims_of_an_expired_lease_one_wins(operation: Operation) -> None:
    _claim(operation)
    _expire(operation)
    won = at_once(8, lambda number: leases.claim(operation.id, f"worker-{number}"))
    assert sum(lease is not None for lease in won) == 1


@pytest.mark.django_db(transaction=True)
def test_a_claim_waits_for_the_owners_last_commit_and_then_finds_it_ended(operation: Operation) -> None:
    lease, claimed = _claim(operation), []
    _expire(operation)
    about_to = threading.Event()

    def other() -> None:
        about_to.set()
        claimed.append(leases.claim(operation.id, "other"))
        connection.close()

    thread = threading.Thread(target=other)
    with transaction.atomic():
        leases.require(lease)
        thread.start()
        about_to.wait()
        leases.succeed(lease, {}, 200)
    thread.join()
    assert claimed == [None]
