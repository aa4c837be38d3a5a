"""Sessions that were parked to be moved and whose resume nobody has asked for: a save's last worker may die after the publication, and then
the host parks the session without asking for anything. A resume that failed is asked for again by workers/fleet/again.py.
"""

import logging
from datetime import timedelta

from django.db.models.functions import Now

from checkpoints_app.services import checkpoint as checkpoints
from sessions_app.errors import ServiceError
from sessions_app.models import Operation, Session
from sessions_app.services import lifecycle
from sessions_app.services.database import Busy, briefly
from sessions_app.states import EXCLUSIVE_KINDS, OPERATION_ACTIVE, OperationKind, SessionState
from workers.operations import moving
from workers.operations.parking import MOVING

log = logging.getLogger(__name__)
#: What was parked longer ago is left to its owner and to operators.
RECENT = timedelta(hours=1)
LOOKED_AT = 100


def bring_back() -> int:
    """Returns how many resumes were asked for."""
    parked = Session.objects.filter(runtime_state=SessionState.PARKED, last_activity_at__gt=Now() - RECENT, park_reason=MOVING)
    return sum(_tried(session_id) for session_id in parked.order_by("-last_activity_at").values_list("id", flat=True)[:LOOKED_AT])


def _tried(session_id: str) -> bool:
    """One that cannot be brought back never keeps the others; the next turn tries again."""
    try:
        return _bring_back(session_id)
    except ServiceError as refusal:  # its account is closing: it stays parked
        log.warning("a session that was moved is not resumed", extra={"session_id": session_id, "reason": refusal.message})
    except Busy:
        log.info("a session that was parked to be moved is brought back by the next turn", extra={"session_id": session_id})
    except Exception:
        log.exception("a session that was parked to be moved was not brought back", extra={"session_id": session_id})
    return False


@briefly()
def _bring_back(session_id: str) -> bool:
    """One that somebody holds, or that was deleted since, is passed over."""
    parked = Session.objects.filter(id=session_id, runtime_state=SessionState.PARKED)
    session = parked.select_for_update(no_key=True, skip_locked=True).first()
    if session is None:
        return False
    last = Operation.objects.filter(session=session, kind__in=EXCLUSIVE_KINDS).order_by("-accepted_at").first()
    if last is None or last.state in OPERATION_ACTIVE:
        return False
    if last.kind != OperationKind.CHECKPOINT or last.parameters.get("by") != lifecycle.MOVE:
        return False
    saved = checkpoints.published_by(last.id)
    moving.resume(session, last.parameters["from"], last.parameters["to"], stored_bytes=saved.stored_bytes if saved else None)
    return True
