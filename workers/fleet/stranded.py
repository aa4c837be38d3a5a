"""Sessions that were parked to be moved and whose resume did not come about: they are brought back, so often at most.

A save's last worker may die after the publication, and then the host parks the session without asking for anything; a resume may fail on
the host that it was placed on. An owner who cancelled the resume is not overruled.
"""

from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from checkpoints_app.services import checkpoint as checkpoints
from sessions_app.models import Operation, Session
from sessions_app.services import lifecycle, operation
from sessions_app.states import EXCLUSIVE_KINDS, OPERATION_ACTIVE, OperationKind, OperationState, ResumedBy, SessionState
from workers.operations import moving
from workers.operations.parking import MOVING

#: What was parked longer ago is left to its owner and to operators.
RECENT = timedelta(hours=1)
AGAIN = timedelta(seconds=30)
MOST_TRIES = 5
LOOKED_AT = 100


def bring_back() -> int:
    """Returns how many resumes were asked for."""
    parked = Session.objects.filter(runtime_state=SessionState.PARKED, last_activity_at__gt=Now() - RECENT)
    stranded = parked.filter(park_reason__in=[MOVING, "resume_failed"]).order_by("-last_activity_at")
    return sum(_bring_back(session) for session in stranded[:LOOKED_AT])


@transaction.atomic
def _bring_back(session: Session) -> bool:
    session = operation.lock(session)
    last = _exclusive(session).order_by("-accepted_at").first()
    if session.runtime_state != SessionState.PARKED or last is None or last.state in OPERATION_ACTIVE or not _is_stranded(last):
        return False
    if last.kind == OperationKind.CHECKPOINT:
        saved = checkpoints.published_by(last.id)
        moving.resume(session, last.parameters["from"], last.parameters["to"], stored_bytes=saved.stored_bytes if saved else None)
    else:
        moving.resume(session, last.parameters["from"], "", stored_bytes=last.parameters["stored_bytes"])
    return True


def _is_stranded(last: Operation) -> bool:
    """By the last thing that was done to it."""
    asked_by = str(last.parameters.get("by", ""))
    if last.kind == OperationKind.CHECKPOINT:
        return asked_by == lifecycle.MOVE
    if last.kind != OperationKind.RESUME or asked_by != ResumedBy.MOVED or last.state != OperationState.FAILED:
        return False
    tries = _exclusive(last.session).filter(kind=OperationKind.RESUME, parameters__by=ResumedBy.MOVED, state=OperationState.FAILED)
    recent = tries.filter(accepted_at__gt=Now() - RECENT)
    return recent.count() < MOST_TRIES and not recent.filter(finished_at__gt=Now() - AGAIN).exists()


def _exclusive(session: Session) -> "QuerySet[Operation]":
    return Operation.objects.filter(session=session, kind__in=EXCLUSIVE_KINDS)
