"""Leases on operations: claim by compare-and-set, fencing tokens, the database's clock.

The owner must stop *before* its lease expires: `Lease.renew_every` is a third of the lease, and a worker that could not renew for two
thirds of it gives up its work. Every write of the work is guarded by the token, so a worker that comes back late changes nothing.
"""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from sessions_app.errors import ServiceError
from sessions_app.models import Operation
from sessions_app.services import dispatch, record, waiting
from sessions_app.services.outcome import unfinished
from sessions_app.services.placement import Placement
from sessions_app.states import OperationKind, OperationState


def lease_seconds() -> int:
    seconds: int = settings.KEEPSTATE_LEASE_SECONDS
    return seconds


#: Attempts of the worker that goes on with what another has handed on.
ATTEMPTS_HANDED_ON = 3


class LeaseLost(Exception):
    """Another worker owns the operation now, or it has ended: stop, and touch nothing that is not named by your own token."""


@dataclass(frozen=True)
class Lease:
    operation_id: str
    token: int
    attempt: int
    seconds: float

    @property
    def renew_every(self) -> float:
        return self.seconds / 3


_CLAIM = """
UPDATE sessions_app_operation
SET state = 'running', lease_token = nextval('sessions_app_lease_token'), lease_owner = %(owner)s,
    lease_expires_at = clock_timestamp() + make_interval(secs => %(seconds)s), attempt = attempt + 1,
    started_at = coalesce(started_at, clock_timestamp())
WHERE id = %(id)s AND attempt < max_attempts AND due_at <= clock_timestamp()
  AND waits_for = '' AND (%(host)s = '' OR host_id IN ('', %(host)s))
  AND (state = 'queued' OR (state = 'running' AND lease_expires_at < clock_timestamp()))
RETURNING lease_token, attempt
"""


def claim(operation_id: str, owner: str, *, host_id: str = "") -> Lease | None:
    """The lease, or None: someone else has it, it has ended, it is not due, or it waits for a host.

    `host_id`: where it would be done. What was placed on another host meanwhile is that one's, whoever heard its doorbell first.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"id": operation_id, "owner": owner, "host": host_id, "seconds": lease_seconds()})
        row = cursor.fetchone()
    return None if row is None else Lease(operation_id, row[0], row[1], lease_seconds())


def _held(lease: Lease) -> Any:
    return Operation.objects.filter(id=lease.operation_id, lease_token=lease.token, state=OperationState.RUNNING)


def renew(lease: Lease) -> None:
    """Extend the lease from now. Raises LeaseLost; an expired lease that nobody took may be renewed, for the token still fences."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sessions_app_operation SET lease_expires_at = clock_timestamp() + make_interval(secs => %s) "
            "WHERE id = %s AND lease_token = %s AND state = 'running'",
            [lease_seconds(), lease.operation_id, lease.token],
        )
        if cursor.rowcount != 1:
            raise LeaseLost(lease.operation_id)


def require(lease: Lease) -> Operation:
    """Prerequisite: inside a transaction. The operation, locked, if the token still owns it; else LeaseLost."""
    operation: Operation | None = _held(lease).select_for_update(no_key=True).first()
    if operation is None:
        raise LeaseLost(lease.operation_id)
    return operation


def report(lease: Lease, **progress: Any) -> None:
    """Replace the progress that a reader of the operation sees."""
    if not _held(lease).update(progress=progress):
        raise LeaseLost(lease.operation_id)


def hand_on(lease: Lease, placement: Placement) -> Operation:
    """Give the operation up for another worker to go on with, at once and with attempts of its own: the token is void from here on, and so
    is the room that it had reserved.

    Prerequisite: inside the transaction of what has been done so far. The caller rings.
    """
    operation = require(lease)
    operation.queue, operation.host_id, operation.reserved_bytes = placement.queue, placement.host_id, placement.reserved_bytes
    operation.lease_token, operation.lease_owner = None, ""
    operation.max_attempts = operation.attempt + ATTEMPTS_HANDED_ON
    operation.save(update_fields=["queue", "host_id", "reserved_bytes", "lease_token", "lease_owner", "max_attempts"])
    Operation.objects.filter(id=operation.id).update(lease_expires_at=Now())
    return operation


@transaction.atomic
def let_go(lease: Lease) -> bool:
    """End this attempt, and ring for the next one, which need not wait for the lease to expire. False where there is none left: then
    nothing was written. Raises LeaseLost.
    """
    operation = require(lease)
    if operation.attempt >= operation.max_attempts:
        return False
    Operation.objects.filter(id=operation.id).update(lease_token=None, lease_owner="", lease_expires_at=Now())
    dispatch.ring(operation)
    return True


def succeed(lease: Lease, response: dict[str, Any] | list[dict[str, Any]], http_status: int) -> None:
    _finish(lease, OperationState.SUCCEEDED, response=response, http_status=http_status)


def fail(lease: Lease, error: ServiceError) -> None:
    _finish(lease, OperationState.FAILED, error=error.as_dict(), http_status=error.status)


def cancelled(lease: Lease, error: ServiceError) -> None:
    """The work has stopped because it was asked to (services/cancel.py)."""
    _finish(lease, OperationState.CANCELLED, error=error.as_dict(), http_status=error.status)


@transaction.atomic
def _finish(lease: Lease, state: OperationState, **result: Any) -> None:
    if not _held(lease).update(state=state, finished_at=Now(), lease_expires_at=None, **result):
        raise LeaseLost(lease.operation_id)
    record.ended([lease.operation_id])
    if state != OperationState.SUCCEEDED:
        waiting.wake()  # its machine needs no room any more, if it was to have one


@transaction.atomic
def give_up(operation: Operation) -> bool:
    """End an operation whose attempts are spent and whose lease is dead. True if this call ended it.

    What can be repeated has failed; a command in a guest may have had effects, so its outcome is not known and says so.
    """
    unknown = operation.kind == OperationKind.EXEC
    error = unfinished(operation.kind, _worker_lost(operation.attempt))
    held = Operation.objects.filter(id=operation.id, state=OperationState.RUNNING, lease_token=operation.lease_token)
    ended = held.filter(lease_expires_at__lt=Now(), attempt__gte=F("max_attempts")).update(
        state=OperationState.RECONCILIATION_REQUIRED if unknown else OperationState.FAILED,
        error=error.as_dict(),
        http_status=error.status,
        finished_at=Now(),
        lease_expires_at=None,
    )
    if ended:
        record.ended([operation.id])
    return bool(ended)


@transaction.atomic
def abandon(operation: Operation, error: ServiceError) -> bool:
    """End an operation whose worker is lost with its host, and which no other host could take. True if this call ended it."""
    held = Operation.objects.filter(id=operation.id, state=OperationState.RUNNING, lease_token=operation.lease_token)
    ended = held.filter(lease_expires_at__lt=Now()).update(
        state=OperationState.FAILED, error=error.as_dict(), http_status=error.status, finished_at=Now(), lease_token=None
    )
    if ended:
        record.ended([operation.id])
    return bool(ended)


def _worker_lost(attempts: int) -> str:
    return "Its worker was lost." if attempts == 1 else f"Its worker was lost {attempts} times, each time before the end."
