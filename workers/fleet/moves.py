"""Sessions move from a host to another: one that an operator names, and all of a host that drains and moves.

A move is a save that stops the machine, and a resume that is asked for in the commit that parks the session (workers/operations/moving.py):
whatever dies, the session is running, or parked with a resume that waits for its worker. Nothing is stopped that no other host could take.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from sessions_app.errors import Conflict, FleetUnavailable, ServiceError
from sessions_app.models import Operation, Session
from sessions_app.services import activity, lifecycle, operation
from sessions_app.services.database import Busy, briefly
from sessions_app.states import EXCLUSIVE_KINDS, OPERATION_ACTIVE, OperationKind, OperationState, SessionState
from workers.fleet import stranded
from workers.host import liveness, targets
from workers.models import Host

log = logging.getLogger(__name__)

REASON = "moved to another host"
#: Saves of one host's sessions at a time: each takes of its disk, its network and its two slots for machines.
AT_A_TIME = 2
#: A move whose save did not succeed is tried again after this, and so often at most while the host drains.
AGAIN = timedelta(seconds=30)
MOST_TRIES = 5
#: Sessions of a host that one turn looks at.
LOOKED_AT = 200


def patience() -> timedelta:
    """How long a command in a session is waited for (KEEPSTATE_MOVE_PATIENCE_SECONDS)."""
    seconds: int = settings.KEEPSTATE_MOVE_PATIENCE_SECONDS
    return timedelta(seconds=seconds)


@transaction.atomic
def ask(session: Session, to: str = "", *, cut: bool = False) -> Operation:
    """Ask for one session's move, and return its save. `cut`: commands that run in it are not waited for.

    Raises WrongState, Conflict (it is busy, a command runs, it is there already) or FleetUnavailable (no host could take it, and why):
    nothing was done.
    """
    session = operation.lock(session)
    operation.require_state(session, OperationKind.CHECKPOINT)
    _require_target(session, to)
    if not cut and activity.command_runs(session):
        raise Conflict("A command runs in the session. It was not moved.", next_action="Ask again when it has ended.")
    facts = {"from": session.host_id, "to": to, "cut": cut}
    return lifecycle.ask_save(session, stop=True, reason=REASON, by=lifecycle.MOVE, admitted=True, facts=facts)


def _require_target(session: Session, to: str) -> None:
    if to and to == session.host_id:
        raise Conflict(f"The session is on {to} already. Nothing was done.")
    found = targets.of([session])[session.id]
    if to in found.able or (not to and found.able):
        return
    why = found.why_none() or f"{to} cannot take it; {', '.join(found.able)} could"
    raise FleetUnavailable(f"The session was not moved: {why}. It runs on.", next_action="./keepstate host list shows the hosts.")


def move_on() -> int:
    """For each host that moves: ask for the next few sessions. Returns how many moves, and resumes of stranded ones, were asked for."""
    hosts = liveness.alive().filter(moving=True)
    return sum(_move_some(host) for host in hosts) + stranded.bring_back()


def _move_some(host: Host) -> int:
    under_way = _moves(Operation.objects.filter(host_id=host.id, state__in=OPERATION_ACTIVE)).count()
    asked = 0
    for one in staying(host):
        if under_way + asked >= AT_A_TIME:
            break
        if not one.why:
            asked += _try(one.session, cut=one.cut)
    return asked


def _try(session: Session, *, cut: bool) -> bool:
    """One that somebody holds is passed over: the next turn comes within seconds."""
    try:
        with briefly():
            if not Session.objects.filter(id=session.id).select_for_update(skip_locked=True, no_key=True).exists():
                return False
            ask(session, cut=cut)
    except Busy:
        return False
    except ServiceError as refusal:  # it was taken up by somebody else since, or the room is gone: the next turn looks again
        log.info("a session is not moved now", extra={"session_id": session.id, "reason": refusal.message})
        return False
    return True


@dataclass(frozen=True)
class Staying:
    """A running session of a host, and why it is not moved now; '': it is its turn. `cut`: its commands were waited for long enough."""

    session: Session
    why: str
    cut: bool


def staying(host: Host) -> list[Staying]:
    """The sessions whose machines run on the host, those first that were used longest ago; of very many, not all."""
    here = Session.objects.filter(host_id=host.id, runtime_state=SessionState.RUNNING).order_by("last_activity_at")
    active = Operation.objects.filter(session=OuterRef("id"), state__in=OPERATION_ACTIVE)
    found = list(
        here.annotate(
            busy=Exists(active.filter(kind__in=EXCLUSIVE_KINDS)),
            commanded=Exists(active.filter(kind=OperationKind.EXEC)),
        )[:LOOKED_AT]
    )
    could = targets.of(found)
    cut = Host.objects.filter(id=host.id, moving_since__lt=Now() - patience()).exists()
    return [Staying(session, _why(session, host, could[session.id], cut=cut), cut) for session in found]


def _why(session: Session, host: Host, could: targets.Targets, *, cut: bool) -> str:
    if session.busy:  # type: ignore[attr-defined]  # by the annotation
        return "an operation looks after it"
    if none := could.why_none():
        return none
    if session.commanded and not cut:  # type: ignore[attr-defined]
        return "a command runs in it"
    return _failed(session, host)


def _failed(session: Session, host: Host) -> str:
    """Why it is not tried (again) yet: of its moves since the host began to move, those that did not succeed."""
    tries = _moves(Operation.objects.filter(session=session)).filter(accepted_at__gte=host.moving_since or host.registered_at)
    failed = tries.filter(state=OperationState.FAILED)
    if failed.count() >= MOST_TRIES:
        message = (failed.latest("accepted_at").error or {}).get("message", "")
        return f"its save failed {MOST_TRIES} times and is not tried again: {message}"
    if tries.filter(state__in=[OperationState.FAILED, OperationState.CANCELLED], finished_at__gt=Now() - AGAIN).exists():
        return "its save did not succeed; it is tried again in a moment"
    return ""


def _moves(operations: "QuerySet[Operation]") -> "QuerySet[Operation]":
    return operations.filter(kind=OperationKind.CHECKPOINT, parameters__by=lifecycle.MOVE)
