"""Run one operation: claim it, keep its lease, do its kind's work, write its end.

A handler writes its own success in the commit that makes it true. What it raises ends the operation as failed; what kills the worker leaves
the lease to expire, and the sweeper rings for another attempt, so every handler begins by looking at what an earlier attempt left. A
database that did not answer is as a worker that died there: another attempt follows, at once where that can be written.
"""

import logging
import time
from collections.abc import Callable, Mapping

import structlog
from django.db import Error as DatabaseFault
from django.db import transaction

from sessions_app.errors import Cancelled, ServiceError
from sessions_app.models import Operation, Session
from sessions_app.services import lease as leases
from sessions_app.services import unbegun
from sessions_app.services.database import AWAY, drop_broken_connection
from sessions_app.services.lease import Lease, LeaseLost
from sessions_app.services.outcome import unfinished
from sessions_app.states import OperationKind, SessionState
from workers.host import claim, turn
from workers.host.identity import host_id
from workers.operations import boot, checkpoint, delete, execute, fork, recovery, restore, resume
from workers.operations.cancelled import told
from workers.operations.keeper import Keeper
from workers.operations.settle import busy
from workers.operations.work import Work

log = logging.getLogger(__name__)

HANDLERS: Mapping[str, Callable[[Work], None]] = {
    OperationKind.BOOT: boot.run,
    OperationKind.CHECKPOINT: checkpoint.run,
    OperationKind.RESUME: resume.run,
    OperationKind.DELETE: delete.run,
    OperationKind.EXEC: execute.run,
    OperationKind.FORK: fork.run,
    OperationKind.RESTORE: restore.run,
}
#: No host's id: with it only that is claimed which needs none.
NO_HOST = "-"


def run(operation_id: str) -> None:
    """Effects: the operation ends, or (LeaseLost) is left to whoever owns it now. Never raises for what the work meets."""
    before = time.monotonic()  # the lease runs from the claim's own time in the database, which is not earlier
    lease = leases.claim(operation_id, host_id(), host_id=_here())
    if lease is None:
        return
    operation = Operation.objects.select_related("session", "account").get(id=operation_id)
    with (
        structlog.contextvars.bound_contextvars(operation_id=operation.id, session_id=operation.session_id),
        Keeper(lease, before) as keeper,
    ):
        if operation.cancel_requested_at is not None:
            keeper.hear_cancel()  # of an attempt before this one
        _guarded(Work(operation, operation.session, lease, keeper))


def _here() -> str:
    """The host whose work may be done here: this one, while its id is this installation's. One that stood still while another took the id
    goes on for some seconds before its heartbeat finds out, and hears the other's doorbells.
    """
    return host_id() if claim.mine().exists() else NO_HOST


def _guarded(work: Work) -> None:
    kind, lease = work.operation.kind, work.lease
    try:
        _in_turn(work)
        log.info("operation ended", extra={"kind": kind, "attempt": lease.attempt})
    except LeaseLost:
        log.warning("lease lost, work left to its owner", extra={"kind": kind, "attempt": lease.attempt})
    except Cancelled:
        log.info("operation cancelled", extra={"kind": kind})
        _end(leases.cancelled, lease, told(work))
    except ServiceError as error:
        log.info("operation failed", extra={"kind": kind, "code": error.word, "reason": error.message})
        _end(_fail, lease, error)
    except AWAY:
        log.warning("the database did not answer, another attempt follows", extra={"kind": kind, "attempt": lease.attempt}, exc_info=True)
        _end(_another_attempt, lease, unfinished(kind, "The database did not answer, and no attempt is left."))
    except Exception:
        log.exception("operation failed unexpectedly", extra={"kind": kind})
        _end(leases.fail, lease, unfinished(kind, f"The {kind} failed inside KeepState."))


@transaction.atomic
def _another_attempt(lease: Lease, error: ServiceError) -> None:
    if leases.let_go(lease):
        return
    leases.fail(lease, error)
    unbegun.fail_session(Operation.objects.get(id=lease.operation_id), error.as_dict(), source=f"operation/{lease.operation_id}")


def _in_turn(work: Work) -> None:
    """A deletion clears away what others work on, and waits for them itself."""
    kind = work.operation.kind
    if kind == OperationKind.DELETE:
        HANDLERS[kind](work)
        return
    with turn.joined(work.session.id) as mine:
        if not mine:
            raise LeaseLost(work.operation.id)
        HANDLERS[kind](work)


@transaction.atomic
def _fail(lease: Lease, error: ServiceError) -> None:
    """With a save that found its machine gone, the session has failed: what its policy asks for then is asked for in the same commit."""
    leases.fail(lease, error)
    if error.word not in recovery.LOSSES:
        return
    session = Session.objects.select_for_update(no_key=True).get(operations=lease.operation_id)
    if session.runtime_state == SessionState.FAILED and not busy(session):
        recovery.recover(session, source=f"operation/{lease.operation_id}")


def _end(end: Callable[[Lease, ServiceError], None], lease: Lease, error: ServiceError) -> None:
    drop_broken_connection()
    try:
        end(lease, error)
    except LeaseLost:
        log.warning("the failure came after the lease was lost", extra={"code": error.word})
    except DatabaseFault:
        log.exception("the failure could not be written: another attempt follows when the lease has expired", extra={"code": error.word})
