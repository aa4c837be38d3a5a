"""The clocks of a session's policies: they run while its machine does, and every start begins them anew.

What a policy asks for is an operation like any other, under no key.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import DateTimeField, DurationField, Expression, ExpressionWrapper, F
from django.db.models.functions import Now

from sessions_app.models import IdlePolicy, Operation, SavePolicy, Session
from sessions_app.services import operation, placement
from sessions_app.services.operation import Asked
from sessions_app.states import OperationKind, SessionState

_ENDS = frozenset({SessionState.STOPPING, SessionState.PARKED, SessionState.FAILED, SessionState.RECOVERY_REQUIRED, SessionState.DELETING})
#: While the machine runs, its clocks do.
RUNS = frozenset({SessionState.RUNNING, SessionState.CHECKPOINTING})
#: In an operation's parameters: who asked for it in the owner's stead.
POLICY, BUDGET, MOVE = "policy", "budget", "move"
BY_POLICY = {"by": POLICY}


def moved(session_id: str, to: SessionState) -> None:
    """A session has come to another state. Clocks that run already go on. Prerequisite: inside the transaction of that step."""
    if to == SessionState.RUNNING:
        start_saves(session_id)
        start_idle(session_id)
    elif to in _ENDS:
        SavePolicy.objects.filter(session_id=session_id, due_at__isnull=False).update(due_at=None, pending_since=None, deferred_reason="")
        IdlePolicy.objects.filter(session_id=session_id, look_at__isnull=False).update(look_at=None, warned_at=None, deferred_reason="")


def start_saves(session_id: str) -> None:
    """The next automatic save is a whole interval away, unless one is due at a time already."""
    stopped = SavePolicy.objects.filter(session_id=session_id, enabled=True, due_at__isnull=True)
    stopped.update(due_at=after("interval_minutes"), pending_since=None, deferred_reason="")


def start_idle(session_id: str) -> None:
    """The session counts as used now, unless its idleness is counted already."""
    stopped = IdlePolicy.objects.filter(session_id=session_id, enabled=True, look_at__isnull=True)
    stopped.update(active_at=Now(), look_at=after("idle_minutes"), warned_at=None, deferred_reason="")


def ask_save(
    session: Session, *, stop: bool, reason: str, by: str = POLICY, admitted: bool = False, facts: Mapping[str, Any] | None = None
) -> Operation:
    """Ask for a save in the owner's stead; `by` decides why the session is parked, `facts` are kept with the parameters.

    `admitted`: no quota of the owner's keeps it from being done.

    Prerequisite: the session is locked. Raises WrongState or Conflict; then nothing was written."""
    return operation.accept(
        session=session,
        kind=OperationKind.CHECKPOINT,
        place=lambda: placement.on(session.host_id),
        asked=Asked(),
        parameters={"stop": stop, "reason": reason, "by": by, **(facts or {})},
        admitted=admitted,
    )


def after(minutes: str) -> Expression:
    """So many minutes from now, by the database's clock; `minutes` names the column that says how many."""
    length = ExpressionWrapper(F(minutes) * timedelta(minutes=1), output_field=DurationField())
    return ExpressionWrapper(Now() + length, output_field=DateTimeField())
