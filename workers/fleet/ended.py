"""How work ends whose host is lost: what is known of it, in the words of its kind. Its worker's token is void from then on."""

from typing import Any

from django.db.models.functions import Now

from checkpoints_app.services import checkpoint as checkpoints
from sessions_app.errors import HostLost, ServiceError
from sessions_app.models import Operation, Session
from sessions_app.services import fork, record
from sessions_app.services.outcome import unfinished
from sessions_app.states import OPERATION_ACTIVE, OperationKind, OperationState
from workers.operations import moving
from workers.operations.fork import answer_of
from workers.operations.host_loss import LOOK, save_lost
from workers.operations.words import save_words


def command(operation: Operation) -> None:
    """One that had begun may have had effects."""
    if operation.attempt > 0:
        _end(operation, OperationState.RECONCILIATION_REQUIRED, unfinished(operation.kind, "Its host was lost."))
        return
    _fail(operation, HostLost("The host was lost before the command began. It was not run.", next_action=LOOK))


def exclusive(operation: Operation, session: Session) -> bool:
    """What was at work on a machine that ran. False for a resume: it is attempted elsewhere, and its lease is over here and now."""
    match operation.kind:
        case OperationKind.RESUME:
            Operation.objects.filter(id=operation.id, state=OperationState.RUNNING).update(
                lease_token=None, lease_owner="", lease_expires_at=Now()
            )
            return False
        case OperationKind.FORK if children := fork.children_of(operation):
            _end(operation, OperationState.SUCCEEDED, response=answer_of(operation, children), http_status=201)
        case OperationKind.CHECKPOINT:
            _fail(operation, save_lost(session))
        case _:
            _fail(operation, _nothing(operation.kind))
    return True


def stopped(operation: Operation, session: Session) -> None:
    """A save whose checkpoint is published, and whose machine is gone, has done what was asked; a move goes on with its resume."""
    published = checkpoints.published_by(operation.id)
    if published is not None:
        _end(operation, OperationState.SUCCEEDED, response=save_words(session, published), http_status=200)
        moving.go_on(session, operation, published)
    else:
        _fail(operation, _nothing(operation.kind))


def _nothing(kind: str) -> HostLost:
    done = "No child was created" if kind == OperationKind.FORK else "Nothing was done"
    return HostLost(f"The host was lost before the {kind} had its effect. {done}.", next_action=f"{LOOK} Then ask for the {kind} again.")


def _fail(operation: Operation, error: ServiceError) -> None:
    _end(operation, OperationState.FAILED, error)


def _end(operation: Operation, state: OperationState, error: ServiceError | None = None, **result: Any) -> None:
    told = {"error": error.as_dict(), "http_status": error.status} if error is not None else result
    Operation.objects.filter(id=operation.id, state__in=OPERATION_ACTIVE).update(
        state=state, finished_at=Now(), lease_token=None, lease_owner="", lease_expires_at=None, waits_for="", **told
    )
    record.ended([operation.id])
