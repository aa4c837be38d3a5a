"""Cancelling an operation: a request, not a stop. Whatever finishes first wins, and effects that are complete are not undone.

What no worker has begun ends here at once. A worker that is at it hears the request between its steps, leaves the session as it was
before, and ends the operation as `cancelled`; until then it reads `cancelling`.
"""

from django.db import transaction
from django.db.models.functions import Coalesce, Now

from sessions_app.errors import Cancelled, Conflict
from sessions_app.models import Operation, Session
from sessions_app.services import record, waiting
from sessions_app.services import session as sessions
from sessions_app.states import CANCELLING, OPERATION_ACTIVE, OperationKind, OperationState, SessionState

#: What a worker may be asked to leave. A deletion is final once it is accepted, and the children of a fork exist all at once.
CANCELLABLE = frozenset({OperationKind.BOOT, OperationKind.CHECKPOINT, OperationKind.RESUME, OperationKind.EXEC, OperationKind.RESTORE})
_NOT_BEGUN = "Cancelled before it began. Nothing was done."


@transaction.atomic
def cancel(found: Operation, *, source: str = "api") -> Operation:
    """The operation after the request: `cancelled`, or running and asked to stop. Safe to repeat.

    Raises Conflict for one that has ended otherwise, or that cannot be cancelled any more; then nothing was changed.
    """
    operation = Operation.objects.select_for_update(no_key=True).get(id=found.id)  # before the session: as workers lock
    session = Session.objects.select_for_update(no_key=True).get(id=found.session_id)
    operation.session = session
    if operation.state == OperationState.CANCELLED:
        return operation
    if operation.state not in OPERATION_ACTIVE:
        raise Conflict(
            f"The {operation.kind} has {operation.state} already. Nothing was cancelled.",
            next_action=f"Read its outcome: GET /api/operations/{operation.id}.",
            facts={"operation_id": operation.id, "operation_state": operation.state},
            code="ks_already_ended",
        )
    if operation.state == OperationState.QUEUED and operation.attempt == 0 and operation.kind != OperationKind.DELETE:
        _end(operation, session, source)
    else:
        _require_possible(operation, session)
        Operation.objects.filter(id=operation.id).update(cancel_requested_at=Coalesce("cancel_requested_at", Now()))
    operation.refresh_from_db()
    return operation


def _end(operation: Operation, session: Session, source: str) -> None:
    error = Cancelled(_NOT_BEGUN)
    Operation.objects.filter(id=operation.id).update(
        state=OperationState.CANCELLED, error=error.as_dict(), http_status=error.status, finished_at=Now(), cancel_requested_at=Now()
    )
    record.ended([operation.id])
    waiting.wake()
    if operation.kind == OperationKind.BOOT and session.runtime_state == SessionState.PROVISIONING:
        sessions.move(
            session, [SessionState.PROVISIONING], SessionState.FAILED, source=source, type_="session.failed", failure=error.as_dict()
        )


def _require_possible(operation: Operation, session: Session) -> None:
    if operation.kind not in CANCELLABLE:
        what = "A deletion that is accepted" if operation.kind == OperationKind.DELETE else f"A {operation.kind} that has begun"
        raise _too_late(operation, f"{what} cannot be cancelled.")
    if operation.kind == OperationKind.CHECKPOINT and session.runtime_state == SessionState.STOPPING:
        raise _too_late(operation, "The save is published and the machine is being stopped.")
    if operation.kind == OperationKind.RESTORE and session.runtime_state == SessionState.RESUMING:
        raise _too_late(operation, "What it leaves is left already, and the checkpoint is being resumed.")


def _too_late(operation: Operation, why: str) -> Conflict:
    return Conflict(
        f"{why} It goes on; nothing was changed.",
        next_action=f"Wait for it: GET /api/operations/{operation.id}.",
        facts={"operation_id": operation.id, "operation_state": operation.state},
        code="ks_not_cancellable",
    )


def requested(operation_id: str) -> bool:
    return Operation.objects.filter(id=operation_id, cancel_requested_at__isnull=False).exists()


def shown_state(operation: Operation) -> str:
    """The state as clients read it: `cancelling` stands for running and asked to stop."""
    asked = operation.state == OperationState.RUNNING and operation.cancel_requested_at is not None
    return CANCELLING if asked else operation.state
