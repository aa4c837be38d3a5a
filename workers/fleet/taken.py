"""What becomes of one session of a lost host, in one commit: its epoch moves on, so that whatever acts for the old one is refused from here
on; the work on it ends, each kind in its own words; its state is told; and what its recovery policy wants is asked for.

Work that only begins a machine (provisioning, resuming) is no loss: it is placed on another host and attempted again there
(workers/fleet/waiting.py), and only where nobody is at it any more does its session end here. A deletion is anybody's once its host is
silent (workers/sweep.py).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import F, Q

from checkpoints_app.services import checkpoint as checkpoints
from sessions_app.errors import HostLost
from sessions_app.models import Operation, Session
from sessions_app.services import held
from sessions_app.services import session as sessions
from sessions_app.services.database import briefly
from sessions_app.states import EXCLUSIVE_KINDS, OPERATION_ACTIVE, SESSION_LIVE, OperationKind, SessionState
from workers.fleet import ended
from workers.models import Host
from workers.operations import host_loss, recovery
from workers.operations.host_loss import Loss
from workers.operations.parking import reason_of_last_stop

log = logging.getLogger(__name__)
SOURCE = "fleet"


def there(host_id: str) -> list[str]:
    """Sessions whose machines were on the host, or whose commands still run there as far as anybody knows."""
    busy = Operation.objects.filter(state__in=OPERATION_ACTIVE, kind__in=EXCLUSIVE_KINDS).values("session")
    begun = Q(runtime_state__in=[SessionState.PROVISIONING, SessionState.RESUMING]) & ~Q(id__in=busy)
    had = Session.objects.filter(Q(runtime_state__in=SESSION_LIVE) | begun, host_id=host_id).values_list("id", flat=True)
    commands = Operation.objects.filter(state__in=OPERATION_ACTIVE, kind=OperationKind.EXEC, host_id=host_id)
    return sorted({*had, *commands.values_list("session_id", flat=True)})


@briefly()
def take(session_id: str, host_id: str) -> bool:
    """Whether anything was done. Nothing is, for a session that has moved on or a host that is heard of again.

    Raises Busy where somebody holds the session's rows.
    """
    session, work = held.with_work(Session(id=session_id))
    if not Host.objects.filter(id=host_id, lost_at__gte=F("heartbeat_at")).exists():
        return False
    here = session.host_id == host_id
    commands = [one for one in work if one.kind == OperationKind.EXEC and (here or one.host_id == host_id)]
    for command in commands:
        ended.command(command)
    way = WAYS.get(SessionState(session.runtime_state)) if here else None
    exclusive = next((one for one in work if one.kind in EXCLUSIVE_KINDS), None)
    return (way is not None and way(host_loss.of(session, host_id), exclusive)) or bool(commands)


def _fails(loss: Loss, work: Operation | None) -> bool:
    """`running`, `checkpointing`: its machine is gone, with all that it did since the last checkpoint."""
    session = loss.session
    unpublished = {"code": HostLost.code, "message": "its host was lost"}
    checkpoints.fail_unfinished(session.id, None, unpublished, source=SOURCE)
    goes_on = work is not None and not ended.exclusive(work, session)
    _move(loss, SessionState.FAILED, "session.host_lost", payload=loss.told, failure=loss.failure.as_dict())
    if not goes_on:
        recovery.recover(session, source=SOURCE)
    return True


def _parks(loss: Loss, work: Operation | None) -> bool:
    """`stopping`: what was to be saved is published, and its machine was being ended."""
    reason = reason_of_last_stop(loss.session)
    _move(loss, SessionState.PARKED, "session.parked", payload={"reason": reason, "host_lost": True}, park_reason=reason)
    if work is not None:
        ended.stopped(work, loss.session)
    return True


def _never_ran(loss: Loss, work: Operation | None) -> bool:
    """`provisioning`."""
    if work is not None:
        return False
    _move(loss, SessionState.FAILED, "session.host_lost", payload=loss.told, failure=loss.failure.as_dict())
    return True


def _not_resumed(loss: Loss, work: Operation | None) -> bool:
    """`resuming`."""
    if work is not None:
        return False
    why = {"reason": "Its host was lost, and nobody was at the resume any more.", **loss.facts}
    _move(loss, SessionState.PARKED, "session.resume_failed", payload=why, park_reason="resume_failed")
    return True


#: By the state that the session was in; the others have no machine.
WAYS: Mapping[SessionState, Callable[[Loss, Operation | None], bool]] = {
    SessionState.PROVISIONING: _never_ran,
    SessionState.RUNNING: _fails,
    SessionState.CHECKPOINTING: _fails,
    SessionState.STOPPING: _parks,
    SessionState.RESUMING: _not_resumed,
}


def _move(loss: Loss, to: SessionState, type_: str, *, payload: dict[str, Any], **changes: Any) -> None:
    before = [SessionState(loss.session.runtime_state)]
    sessions.move(loss.session, before, to, source=SOURCE, type_=type_, payload=payload, epoch=F("epoch") + 1, host_id="", **changes)
    loss.record(SOURCE)
    log.warning("a session was taken from a lost host", extra={"session_id": loss.session.id, "host_id": loss.host_id, "state": to.value})
