"""Automatic saves: off until asked for, one at a time, and one that was missed is made once.

A save that is due while another operation has the session waits (`pending`) and is made as soon as the session is free. After a time
without sweeps, whatever was due is made once and the clock begins anew.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Count
from django.db.models.functions import Coalesce, Now

from sessions_app.errors import ServiceError
from sessions_app.models import Operation, SavePolicy, Session
from sessions_app.services import bounds, event, lifecycle, operation, revision
from sessions_app.services.database import hold
from sessions_app.services.lifecycle import BY_POLICY
from sessions_app.states import OPERATION_ACTIVE, OperationKind

REASON = "automatic"
BATCH = 20
#: Automatic saves of one host at the same time: its workers have other things to do as well.
PER_HOST = 1
#: A session that was busy when its save was due is looked at again after this.
AGAIN = timedelta(seconds=10)


@dataclass(frozen=True)
class SaveSchedule:
    """A policy as it is now. `state`: off; idle (the machine does not run: nothing to save); scheduled; pending (due, and waiting)."""

    policy: SavePolicy
    state: str
    session_revision: int


def read(session: Session) -> SaveSchedule:
    policy = _policy(session)
    return SaveSchedule(policy, _state(policy), session.revision)


def _policy(session: Session) -> SavePolicy:
    return SavePolicy.objects.filter(session=session).first() or SavePolicy(session=session)


def _state(policy: SavePolicy) -> str:
    if not policy.enabled:
        return "off"
    if policy.pending_since is not None:
        return "pending"
    return "idle" if policy.due_at is None else "scheduled"


@transaction.atomic
def change(session: Session, *, enabled: bool, interval_minutes: int | None, expected_revision: int) -> SaveSchedule:
    """Switch the saves on or off; nothing is saved or erased by it. Raises Invalid, or Conflict for a session that has moved on.

    A request that asks for what is so already changes nothing, whatever revision it names: a repeated one is answered as the first was.
    """
    if interval_minutes is not None:
        bounds.require_save_interval(interval_minutes)
    session = operation.lock(session)
    policy = _policy(session)
    minutes = policy.interval_minutes if interval_minutes is None else interval_minutes
    if (policy.enabled, policy.interval_minutes) != (enabled, minutes):
        revision.advance(session, expected_revision)
        policy.enabled, policy.interval_minutes = enabled, minutes
        policy.due_at, policy.pending_since, policy.deferred_reason = None, None, ""
        policy.save()
        if session.runtime_state in lifecycle.RUNS:
            lifecycle.start_saves(session.id)
        event.append(session.id, "session.checkpoint_policy", {"enabled": enabled, "interval_minutes": minutes}, source="api")
    return read(session)


def run_due() -> int:
    """Ask for the saves that are due, a few at a time. Two that run at once ask for none twice. Returns how many were asked for."""
    due = SavePolicy.objects.filter(enabled=True, due_at__lte=Now()).exclude(session__host_id__in=_full_hosts())
    return sum(_run(session_id) for session_id in due.order_by("due_at").values_list("session_id", flat=True)[:BATCH])


def _full_hosts() -> list[str]:
    saving = Operation.objects.filter(kind=OperationKind.CHECKPOINT, state__in=OPERATION_ACTIVE, parameters__contains=BY_POLICY)
    counted = saving.values("session__host_id").annotate(saves=Count("id")).filter(saves__gte=PER_HOST)
    return list(counted.values_list("session__host_id", flat=True))


@transaction.atomic
def _run(session_id: str) -> bool:
    """The session is locked first and its policy after it, as everywhere; a session that somebody holds is left for the next sweep.

    Before both, a lock of this act alone: two turns at once would each find a host without a save.
    """
    hold("automatic saves")
    session = Session.objects.select_for_update(no_key=True, skip_locked=True).filter(id=session_id).first()
    mine = SavePolicy.objects.filter(session_id=session_id, enabled=True, due_at__lte=Now())
    policy = mine.select_for_update().first()
    if session is None or policy is None or session.host_id in _full_hosts():
        return False
    interval = timedelta(minutes=policy.interval_minutes)
    if Session.objects.filter(id=session_id, head_checkpoint_at__gt=Now() - interval).exists():
        assert session.head_checkpoint_at is not None
        mine.update(due_at=session.head_checkpoint_at + interval)  # its owner has just saved it
        return False
    try:
        asked = lifecycle.ask_save(session, stop=False, reason=REASON)
    except ServiceError as busy:
        mine.update(due_at=Now() + AGAIN, deferred_reason=busy.message[:200], pending_since=Coalesce("pending_since", Now()))
        return False
    mine.update(
        due_at=lifecycle.after("interval_minutes"),
        pending_since=None,
        deferred_reason="",
        last_attempt_at=Now(),
        last_operation_id=asked.id,
    )
    return True
