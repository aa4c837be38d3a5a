"""What becomes of one session of a lost host, in one commit: its epoch moves on, so that whatever acts for the old one is refused from here
on; the work on it ends, each kind in its own words; its state is told; and what its recovery policy wants is asked for.

Work that only begins a machine (provisioning, resuming) is no loss: it is placed on another host and attempted again there
(workers/fleet/waiting.py), and only where nobody is at it any more does its session end here. A deletion is anybody's once its host is
silent (workers/sweep.py).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import DurationField, ExpressionWrapper, F, Q
from django.db.models.functions import Now

from checkpoints_app.services import checkpoint as checkpoints
from sessions_app.errors import HostLost
from sessions_app.models import Operation, Session
from sessions_app.services import held, record, recovery_policy
from sessions_app.services import session as sessions
from sessions_app.states import EXCLUSIVE_KINDS, OPERATION_ACTIVE, SESSION_LIVE, OperationKind, RecordKind, ResumedBy, SessionState
from workers.fleet import ended
from workers.models import Host
from workers.operations.parking import reason_of_last_stop

log = logging.getLogger(__name__)
SOURCE = "fleet"
#: A worker that stands still in the middle of a commit holds its rows until the database ends its connection; others are taken meanwhile.
LOCK_MILLISECONDS = 500


@dataclass(frozen=True)
class Loss:
    """A session as it was when its host was lost. `checkpoint_seconds`: the age of its last checkpoint, None if it has none."""

    session: Session
    host_id: str
    checkpoint_seconds: int | None

    @property
    def facts(self) -> dict[str, Any]:
        """For the session's owner: without the host's name."""
        return {
            "checkpoint_id": self.session.head_checkpoint_id or None,
            "seconds_since_checkpoint": self.checkpoint_seconds,
        }


def there(host_id: str) -> list[str]:
    """Sessions whose machines were on the host, or whose commands still run there as far as anybody knows."""
    busy = Operation.objects.filter(state__in=OPERATION_ACTIVE, kind__in=EXCLUSIVE_KINDS).values("session")
    begun = Q(runtime_state__in=[SessionState.PROVISIONING, SessionState.RESUMING]) & ~Q(id__in=busy)
    had = Session.objects.filter(Q(runtime_state__in=SESSION_LIVE) | begun, host_id=host_id).values_list("id", flat=True)
    commands = Operation.objects.filter(state__in=OPERATION_ACTIVE, kind=OperationKind.EXEC, host_id=host_id)
    return sorted({*had, *commands.values_list("session_id", flat=True)})


@transaction.atomic
def take(session_id: str, host_id: str) -> bool:
    """Whether anything was done. Nothing is, for a session that has moved on or a host that is heard of again.

    Raises OperationalError where somebody holds the session's rows.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(LOCK_MILLISECONDS)])
    session, work = held.with_work(Session(id=session_id))
    if not Host.objects.filter(id=host_id, lost_at__gte=F("heartbeat_at")).exists():
        return False
    here = session.host_id == host_id
    commands = [one for one in work if one.kind == OperationKind.EXEC and (here or one.host_id == host_id)]
    for command in commands:
        ended.command(command)
    way = WAYS.get(SessionState(session.runtime_state)) if here else None
    exclusive = next((one for one in work if one.kind in EXCLUSIVE_KINDS), None)
    return (way is not None and way(_loss(session, host_id), exclusive)) or bool(commands)


def _loss(session: Session, host_id: str) -> Loss:
    age = ExpressionWrapper(Now() - F("head_checkpoint_at"), output_field=DurationField())
    found: timedelta | None = Session.objects.filter(id=session.id).values_list(age, flat=True).get()
    return Loss(session, host_id, None if found is None or not session.head_checkpoint_id else int(found.total_seconds()))


def _fails(loss: Loss, work: Operation | None) -> bool:
    """`running`, `checkpointing`: its machine is gone, with all that it did since the last checkpoint."""
    session = loss.session
    failure = _failure(loss)
    unpublished = {"code": HostLost.code, "message": "its host was lost"}
    checkpoints.fail_unfinished(session.id, None, unpublished, source=SOURCE)
    goes_on = work is not None and not ended.exclusive(work, session)
    _move(loss, SessionState.FAILED, "session.host_lost", payload={"reason": failure.message, **loss.facts}, failure=failure.as_dict())
    if not goes_on:
        _recover(session)
    return True


def _recover(session: Session) -> None:
    resume = recovery_policy.recover(session, by=ResumedBy.HOST_LOST, source=SOURCE)
    if resume is not None:
        recovery_policy.wait_for(session, resume)


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
    failure = _failure(loss)
    _move(loss, SessionState.FAILED, "session.host_lost", payload={"reason": failure.message, **loss.facts}, failure=failure.as_dict())
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
    told = {"host": loss.host_id, **loss.facts}
    record.write(
        RecordKind.LIFECYCLE, "session.taken", account_id=loss.session.account_id, session_id=loss.session.id, actor=SOURCE, facts=told
    )
    log.warning("a session was taken from a lost host", extra={"session_id": loss.session.id, "host_id": loss.host_id, "state": to.value})


def _failure(loss: Loss) -> HostLost:
    if loss.checkpoint_seconds is None:
        return HostLost(
            "The host that the session's machine was on is lost. Nothing of the session had been saved.",
            next_action="Delete it with force=1 and start another.",
            facts=loss.facts,
        )
    return HostLost(
        f"The host that the session's machine was on is lost. Its last checkpoint is intact; what the machine did in the "
        f"{loss.checkpoint_seconds} s since is lost.",
        next_action="Resume the session from its last checkpoint.",
        facts=loss.facts,
    )
