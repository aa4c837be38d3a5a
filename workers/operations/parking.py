"""Why a session is parked: its owner asked, or its policy did."""

from sessions_app.models import Operation, Session
from sessions_app.services import idle_policy
from sessions_app.states import OperationKind

REQUESTED = "requested"


def park_reason(save: Operation) -> str:
    """Of a save with `stop`."""
    return idle_policy.REASON if save.parameters.get("by") == "policy" else REQUESTED


def reason_of_last_stop(session: Session) -> str:
    """For a session whose machine was being stopped when its worker was lost: of its newest save."""
    last = Operation.objects.filter(session=session, kind=OperationKind.CHECKPOINT).order_by("-accepted_at").first()
    return park_reason(last) if last else REQUESTED
