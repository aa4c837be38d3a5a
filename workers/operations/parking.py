"""Why a session is parked: its owner asked, its policy did, its budget is spent, or it moves to another host."""

from sessions_app.models import Operation, Session
from sessions_app.services import idle_policy
from sessions_app.services.lifecycle import BUDGET, MOVE, POLICY
from sessions_app.states import OperationKind

REQUESTED = "requested"
MOVING = "moving"
_REASONS = {POLICY: idle_policy.REASON, BUDGET: "funds_interlock", MOVE: MOVING}


def park_reason(save: Operation) -> str:
    """Of a save with `stop`."""
    return _REASONS.get(save.parameters.get("by", ""), REQUESTED)


def reason_of_last_stop(session: Session) -> str:
    """For a session whose machine was being stopped when its worker was lost: of its newest save."""
    last = Operation.objects.filter(session=session, kind=OperationKind.CHECKPOINT).order_by("-accepted_at").first()
    return park_reason(last) if last else REQUESTED
