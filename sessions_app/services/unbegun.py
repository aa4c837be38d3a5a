"""The end of an operation that no worker has begun."""

from django.db import transaction
from django.db.models.functions import Now

from sessions_app.errors import ServiceError
from sessions_app.models import Operation, Session
from sessions_app.services import record
from sessions_app.services import session as sessions
from sessions_app.states import OperationKind, OperationState, SessionState


@transaction.atomic
def fail(operation: Operation, error: ServiceError, *, source: str) -> bool:
    """Whether this call ended it. With a boot its session fails too; the session of any other stays as it is."""
    untouched = Operation.objects.filter(id=operation.id, state=OperationState.QUEUED, attempt=0)
    if not untouched.update(state=OperationState.FAILED, error=error.as_dict(), http_status=error.status, finished_at=Now()):
        return False
    record.ended([operation.id])
    if operation.kind == OperationKind.BOOT:
        session = Session.objects.select_for_update(no_key=True).get(id=operation.session_id)
        if session.runtime_state == SessionState.PROVISIONING:
            sessions.move(
                session, [SessionState.PROVISIONING], SessionState.FAILED, source=source, type_="session.failed", failure=error.as_dict()
            )
    return True
