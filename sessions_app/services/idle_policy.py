"""Idle sessions: warned, then saved and parked, never killed; off until asked for.

Nothing is parked while an operation has the session or a command runs in it. A session that is used again after its warning stays.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.functions import Now

from sessions_app.errors import ServiceError
from sessions_app.models import IdlePolicy, Operation, Session
from sessions_app.services import activity, bounds, event, lifecycle, operation, revision

REASON = "idle"
SOURCE = "policy"
BATCH = 20
#: A session that was busy when it should have been parked is looked at again after this.
AGAIN = timedelta(seconds=15)
#: A parking that was asked for and did not come about (its save failed) is asked for again after this.
RETRY = timedelta(minutes=5)


@dataclass(frozen=True)
class Idleness:
    """A policy and what it sees now. `state`: off; not_running; counting; warned (parked at `park_at` unless it is used); deferred (it
    should be parked, and `deferred_reason` keeps it).
    """

    policy: IdlePolicy
    state: str
    idle_since: datetime | None
    warned_at: datetime | None
    park_at: datetime | None
    session_revision: int


def read(session: Session) -> Idleness:
    policy = _policy(session)
    state = _state(policy)
    counts = state in ("counting", "warned", "deferred")
    warned_at = policy.warned_at if state in ("warned", "deferred") else None
    park_at = warned_at + timedelta(seconds=policy.warning_seconds) if warned_at else None
    return Idleness(policy, state, policy.active_at if counts else None, warned_at, park_at, session.revision)


def _policy(session: Session) -> IdlePolicy:
    return IdlePolicy.objects.filter(session=session).first() or IdlePolicy(session=session)


def _state(policy: IdlePolicy) -> str:
    if not policy.enabled:
        return "off"
    if policy.look_at is None:
        return "not_running"
    if policy.warned_at is None or policy.active_at > policy.warned_at:
        return "counting"
    return "deferred" if policy.deferred_reason else "warned"


@transaction.atomic
def change(session: Session, *, enabled: bool, idle_minutes: int | None, warning_seconds: int | None, expected_revision: int) -> Idleness:
    """Switch the parking on or off; nothing is parked by it. Raises Invalid, or Conflict for a session that has moved on.

    A request that asks for what is so already changes nothing, whatever revision it names: a repeated one is answered as the first was.
    """
    session = operation.lock(session)
    policy = _policy(session)
    minutes = policy.idle_minutes if idle_minutes is None else idle_minutes
    seconds = policy.warning_seconds if warning_seconds is None else warning_seconds
    bounds.require_idle(minutes, seconds)
    if (policy.enabled, policy.idle_minutes, policy.warning_seconds) != (enabled, minutes, seconds):
        revision.advance(session, expected_revision)
        policy.enabled, policy.idle_minutes, policy.warning_seconds = enabled, minutes, seconds
        policy.look_at, policy.warned_at, policy.deferred_reason = None, None, ""
        policy.save()
        if session.runtime_state in lifecycle.RUNS:
            lifecycle.start_idle(session.id)
        facts = {"enabled": enabled, "idle_minutes": minutes, "warning_seconds": seconds}
        event.append(session.id, "session.idle_policy", facts, source="api")
    return read(session)


def run_due() -> int:
    """Look at the sessions whose time has come, a few at a time. Two that run at once warn and park none twice. Returns how many parked."""
    due = IdlePolicy.objects.filter(enabled=True, look_at__lte=Now()).order_by("look_at")
    return sum(_run(session_id) for session_id in due.values_list("session_id", flat=True)[:BATCH])


def still_idle(session: Session, parking: Operation) -> bool:
    """Whether nothing has been done in the session since the policy asked for its parking."""
    activity.notice(session)
    used = IdlePolicy.objects.filter(session=session, active_at__gt=parking.accepted_at).exists()
    return not used and not activity.command_runs(session)


@transaction.atomic
def _run(session_id: str) -> bool:
    """The session is locked first and its policy after it, as everywhere; a session that somebody holds is left for the next sweep."""
    session = Session.objects.select_for_update(no_key=True, skip_locked=True).filter(id=session_id).first()
    mine = IdlePolicy.objects.filter(session_id=session_id, enabled=True, look_at__lte=Now())
    policy = mine.select_for_update().first()
    if session is None or policy is None:
        return False
    activity.notice(session)
    if activity.command_runs(session):
        mine.update(active_at=Now())
    policy.refresh_from_db()
    idle, warning = timedelta(minutes=policy.idle_minutes), timedelta(seconds=policy.warning_seconds)
    if mine.filter(active_at__gt=Now() - idle).exists():
        _used_again(session, policy, idle)
        return False
    warned = policy.warned_at is not None and policy.active_at <= policy.warned_at
    if not warned:
        mine.update(warned_at=Now(), look_at=Now() + warning, deferred_reason="")
        _tell_warning(session, warning)
        return False
    return _park(session)


def _used_again(session: Session, policy: IdlePolicy, idle: timedelta) -> None:
    if policy.warned_at is not None:
        event.append(session.id, "session.idle_ended", {}, source=SOURCE)
    IdlePolicy.objects.filter(session=session).update(look_at=policy.active_at + idle, warned_at=None, deferred_reason="")


def _tell_warning(session: Session, warning: timedelta) -> None:
    policy = IdlePolicy.objects.get(session=session)
    assert policy.warned_at is not None
    facts = {"idle_since": policy.active_at.isoformat(), "park_at": (policy.warned_at + warning).isoformat()}
    event.append(session.id, "session.idle_warning", facts, source=SOURCE)


def _park(session: Session) -> bool:
    mine = IdlePolicy.objects.filter(session=session)
    try:
        lifecycle.ask_save(session, stop=True, reason=REASON)
    except ServiceError as busy:
        mine.update(look_at=Now() + AGAIN, deferred_reason=busy.message[:200])
        return False
    mine.update(look_at=Now() + RETRY, deferred_reason="")
    return True
