"""A worker without a machine: it claims operations and writes their ends exactly as the real one does, through leases and guarded steps."""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from sessions_app.errors import ServiceError
from sessions_app.models import Operation, Session
from sessions_app.services import fork
from sessions_app.services import lease as leases
from sessions_app.services import session as sessions
from sessions_app.services.lease import Lease
from sessions_app.states import OPERATION_ACTIVE, OperationKind
from sessions_app.states import SessionState as S
from tests.support.fleet import HOST, checkpoint_row
from workers.operations.words import fork_words, session_words

SOURCE = "operation/test"


def claim(operation: Operation) -> Lease:
    lease = leases.claim(operation.id, "test-worker")
    assert lease is not None, f"{operation.id} could not be claimed"
    return lease


def work(operation_id: str) -> Operation:
    """Carry the operation out to its success."""
    operation = Operation.objects.select_related("session").get(id=operation_id)
    lease = claim(operation)
    with transaction.atomic():
        leases.require(lease)
        HANDLERS[operation.kind](operation.session, operation, lease)
    operation.refresh_from_db()
    return operation


def work_all() -> list[Operation]:
    return [work(one.id) for one in Operation.objects.filter(state__in=OPERATION_ACTIVE).order_by("accepted_at")]


def fail(operation_id: str, error: ServiceError) -> None:
    leases.fail(claim(Operation.objects.get(id=operation_id)), error)


def _boot(session: Session, operation: Operation, lease: Lease) -> None:
    _next_epoch(session)
    sessions.move(session, [S.PROVISIONING], S.RUNNING, source=SOURCE, type_="session.running")
    leases.succeed(lease, session_words(session), 201)


def _checkpoint(session: Session, operation: Operation, lease: Lease) -> None:
    sessions.move(session, [S.RUNNING], S.CHECKPOINTING, source=SOURCE, type_="session.checkpointing")
    row = checkpoint_row(session, operation_id=operation.id, content_digest="c" * 64, reason=operation.parameters["reason"])
    if operation.parameters["stop"]:
        sessions.move(session, [S.CHECKPOINTING], S.STOPPING, source=SOURCE, type_="session.stopping")
        sessions.move(session, [S.STOPPING], S.PARKED, source=SOURCE, type_="session.parked", host_id="")
    else:
        sessions.move(session, [S.CHECKPOINTING], S.RUNNING, source=SOURCE, type_="session.running")
    leases.succeed(lease, {**session_words(session), "checkpoint_id": row.id}, 200)


def _resume(session: Session, operation: Operation, lease: Lease) -> None:
    sessions.move(session, [S.PARKED, S.FAILED, S.RUNNING], S.RESUMING, source=SOURCE, type_="session.resuming")
    _next_epoch(session)
    sessions.move(session, [S.RESUMING], S.RUNNING, source=SOURCE, type_="session.resumed")
    leases.succeed(lease, {**session_words(session), "checkpoint_id": operation.parameters["checkpoint_id"]}, 200)


def _fork(session: Session, operation: Operation, lease: Lease) -> None:
    """The children run at once: what is asked of the worker here is its answer's form."""
    made = []
    for number in range(operation.parameters["children"]):
        child = fork.create_child(session, fork.child_id(operation.id, number), source=SOURCE, facts={})
        asked = {"checkpoint_id": checkpoint_row(child, boundary="fork").id}
        made.append((child, Operation(id="op_resume", kind=OperationKind.RESUME, state="succeeded", parameters=asked)))
    leases.succeed(lease, fork_words(operation, made), 201)


def _restore(session: Session, operation: Operation, lease: Lease) -> None:
    sessions.move(session, [S.PARKED, S.FAILED, S.RUNNING], S.RESUMING, source=SOURCE, type_="session.restoring")
    _next_epoch(session)
    sessions.move(session, [S.RESUMING], S.RUNNING, source=SOURCE, type_="session.restored")
    leases.succeed(lease, {"session_id": session.id, "new_epoch": session.epoch, "continuation": "exact_runtime"}, 200)


def _delete(session: Session, operation: Operation, lease: Lease) -> None:
    sessions.move(session, [S.DELETING], S.DELETED, source=SOURCE, type_="session.deleted", deleted_at=Now(), host_id="")
    answer = {"id": session.id, "state": session.runtime_state, "deleted": True, "runtime_stop": {"state": "done"}, "content_purge": {}}
    leases.succeed(lease, answer, 200)


def _exec(session: Session, operation: Operation, lease: Lease) -> None:
    said = " ".join(operation.parameters["argv"])
    words: dict[str, Any] = {"output": said, "error": "", "exit_code": 0, "stdout": said, "stderr": "", "truncated": False}
    leases.succeed(lease, {**words, "timed_out": False, "duration_seconds": 0.0}, 200)


def _next_epoch(session: Session) -> None:
    Session.objects.filter(id=session.id).update(epoch=F("epoch") + 1, host_id=HOST)
    session.refresh_from_db()


HANDLERS: dict[str, Callable[[Session, Operation, Lease], None]] = {
    OperationKind.BOOT: _boot,
    OperationKind.CHECKPOINT: _checkpoint,
    OperationKind.RESUME: _resume,
    OperationKind.DELETE: _delete,
    OperationKind.EXEC: _exec,
    OperationKind.FORK: _fork,
    OperationKind.RESTORE: _restore,
}
