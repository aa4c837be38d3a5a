"""What becomes of a session whose machine is lost: with its host (it goes on elsewhere, unless its owner does not want that), or alone (it
goes on only if its owner wants that). It goes on from its last checkpoint, as by any resume.

A machine that takes its host with it, or dies as soon as it runs, must not do so for ever: after a few such resumes within minutes the
session stays failed, and says so.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from sessions_app.errors import ServiceError
from sessions_app.models import Operation, RecoveryPolicy, Session
from sessions_app.services import event, operation, revision
from sessions_app.services import session as sessions
from sessions_app.states import OperationKind, ResumedBy

#: So many resumes after a loss, within so long.
LIMIT = 3
WITHIN = timedelta(minutes=10)
_LOSSES = [ResumedBy.HOST_LOST, ResumedBy.MACHINE_LOST]


@dataclass(frozen=True)
class Recovery:
    """A policy as it is now. `resumed_lately`: resumes after a loss that count against the limit."""

    policy: RecoveryPolicy
    resumed_lately: int
    session_revision: int


def read(session: Session) -> Recovery:
    return Recovery(_policy(session), _lately(session), session.revision)


@transaction.atomic
def change(session: Session, *, on_host_loss: bool | None, on_machine_loss: bool | None, expected_revision: int) -> Recovery:
    """Of what is None nothing changes; nothing is resumed by it. Raises Conflict for a session that has moved on.

    A request that asks for what is so already changes nothing, whatever revision it names: a repeated one is answered as the first was.
    """
    session = operation.lock(session)
    policy = _policy(session)
    before = (policy.on_host_loss, policy.on_machine_loss)
    policy.on_host_loss = policy.on_host_loss if on_host_loss is None else on_host_loss
    policy.on_machine_loss = policy.on_machine_loss if on_machine_loss is None else on_machine_loss
    if before != (policy.on_host_loss, policy.on_machine_loss):
        revision.advance(session, expected_revision)
        policy.save()
        facts = {"on_host_loss": policy.on_host_loss, "on_machine_loss": policy.on_machine_loss}
        event.append(session.id, "session.recovery_policy", facts, source="api")
    return read(session)


def inherit(parent: Session, child: Session) -> None:
    """A fork's child has what its parent has now. Prerequisite: inside the transaction that makes it."""
    policy = RecoveryPolicy.objects.filter(session=parent).first()
    if policy is not None:
        RecoveryPolicy.objects.create(session=child, on_host_loss=policy.on_host_loss, on_machine_loss=policy.on_machine_loss)


def recover(session: Session, *, by: ResumedBy, source: str) -> Operation | None:
    """The resume that the session's policy asks for after that loss. None: it is not wanted, there is nothing to resume, or it is refused,
    and then the session's failure says why.

    Prerequisite: inside the commit that failed the session, which is locked; no exclusive operation of it is active.
    """
    if not wants(session, by) or not session.head_checkpoint_id:
        return None
    if _lately(session) >= LIMIT:
        minutes = int(WITHIN.total_seconds() // 60)
        give_up(session, f"It was resumed {LIMIT} times within {minutes} minutes already.", "", source)
        return None
    try:
        with transaction.atomic():
            return sessions.resume_unasked(session, by=by)
    except ServiceError as error:
        give_up(session, error.message, error.next_action, source)
        return None


def wants(session: Session, by: ResumedBy) -> bool:
    """Whether its owner wants it to go on after that; what an operator moves goes on."""
    policy = _policy(session)
    return {ResumedBy.HOST_LOST: policy.on_host_loss, ResumedBy.MACHINE_LOST: policy.on_machine_loss}.get(by, True)


def _policy(session: Session) -> RecoveryPolicy:
    return RecoveryPolicy.objects.filter(session=session).first() or RecoveryPolicy(session=session)


def _lately(session: Session) -> int:
    """Those that are asked for again, after one that failed, follow the same loss (workers/fleet/again.py)."""
    asked = Operation.objects.filter(session=session, kind=OperationKind.RESUME, accepted_at__gt=Now() - WITHIN)
    return asked.filter(parameters__by__in=_LOSSES, parameters__tries__isnull=True).count()


def wait_for(session: Session, resume: Operation) -> None:
    """The session's failure, if it has one, names the resume. Prerequisite: inside the commit that asks for it."""
    if session.failure is not None:
        wait = {**session.failure, "next_action": f"Wait for its resume: GET /api/operations/{resume.id}."}
        Session.objects.filter(id=session.id).update(failure=wait)


def give_up(session: Session, why: str, next_action: str, source: str) -> None:
    """The session stays as it is, and its history says so; its failure too, if it has one. Prerequisite: it is locked."""
    next_action = next_action or f"Resume it: POST /api/sessions/{session.id}/resume."
    if session.failure is not None:
        failure: dict[str, Any] = dict(session.failure)
        failure["message"] = f"{failure.get('message', '')} It was not resumed by itself: {why}".strip()
        failure["next_action"] = next_action
        Session.objects.filter(id=session.id).update(failure=failure, revision=F("revision") + 1)
    event.append(session.id, "session.not_recovered", {"reason": why, "next_action": next_action}, source=source)
    session.refresh_from_db()
