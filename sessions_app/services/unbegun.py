"""The end of an operation that is at no worker: none has begun it, or the one that had is lost.

A boot's session that has never had a host is known to nobody who settles sessions, so it fails in the commit that ends the boot. The
session of any other stays as it is: it had a state to rest in, or its host settles it.
"""

from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from sessions_app.errors import ServiceError
from sessions_app.models import Operation, Session
from sessions_app.services import lease as leases
from sessions_app.services import record
from sessions_app.services import session as sessions
from sessions_app.states import OperationKind, OperationState, SessionState


@transaction.atomic
def fail(operation: Operation, error: ServiceError, *, source: str) -> bool:
    """Whether this call ended it."""
    untouched = Operation.objects.filter(id=operation.id, state=OperationState.QUEUED, attempt=0)
    if not untouched.update(state=OperationState.FAILED, error=error.as_dict(), http_status=error.status, finished_at=Now()):
        return False
    record.ended([operation.id])
    fail_session(operation, error.as_dict(), source=source)
    return True


@transaction.atomic
def abandon(operation: Operation, error: ServiceError, *, source: str) -> bool:
    """Whether this call ended it: its worker is lost with its host, and no other host could take it."""
    if not leases.abandon(operation, error):
        return False
    fail_session(operation, error.as_dict(), source=source)
    return True


def fail_session(operation: Operation, failure: dict[str, Any] | None, *, source: str) -> None:
    """Prerequisite: inside the commit that ends the operation."""
    if operation.kind != OperationKind.BOOT:
        return
    nobodys = Session.objects.filter(id=operation.session_id, runtime_state=SessionState.PROVISIONING, host_id="")
    session = nobodys.select_for_update(no_key=True).first()
    if session is not None:
        sessions.move(session, [SessionState.PROVISIONING], SessionState.FAILED, source=source, type_="session.failed", failure=failure)
