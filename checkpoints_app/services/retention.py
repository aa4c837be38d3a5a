"""Expiry: what a session's policy does not keep is decided under lock, a few points at a time, and erased after that commit.

due      a session with something new for its policy to look at has a row (sessions_app/services/retention.py)
decide   one commit: the points are locked, then the session, then the policy; all is read and chosen anew, and what both times expires is
         `erasing`, with its event and its line of the service record. The row goes when nothing more would expire
erase    point by point, as any erasure; what a death leaves `erasing` is found by the next turn
"""

import logging
import time

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import erase, needs, removal
from checkpoints_app.services.retention_choice import Point, choose
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import StoreError
from sessions_app.models import Operation, RetentionDue, Session
from sessions_app.services import retention
from sessions_app.services.locks import Busy
from sessions_app.services.retention import Rules
from sessions_app.states import OPERATION_ACTIVE, OperationKind, SessionState

log = logging.getLogger(__name__)

SESSIONS = 50  # looked at in one turn
POINTS = 20  # of one session, decided in one commit
SECONDS = 20.0  # of erasing in one turn: the queue has other work
ACTOR = "policy"
EVENT = "session.checkpoint_expired"
_GOING = (SessionState.DELETING, SessionState.DELETED)


def run_turn() -> int:
    """The beat's turn. Returns how many points were erased."""
    deadline = time.monotonic() + SECONDS
    erased = _erase_decided(deadline)
    for session_id in RetentionDue.objects.order_by("due_at").values_list("session_id", flat=True)[:SESSIONS]:
        if time.monotonic() > deadline:
            break
        if _decided(session_id):
            erased += _erase_decided(deadline)
    return erased


def _decided(session_id: str) -> bool:
    """Whether something of it expires now. One bad session goes to the end of the line, and never keeps the others waiting."""
    try:
        return bool(decide(session_id))
    except Exception:
        log.exception("what expires of a session was not decided", extra={"session_id": session_id})
        RetentionDue.objects.filter(session_id=session_id).update(due_at=Now())
        return False


@transaction.atomic
def decide(session_id: str) -> list[str]:
    """The points that expire now, at most POINTS of them, oldest first: `erasing` from this commit on."""
    seen = Session.objects.get(id=session_id)
    first = {row.id for row in expiring(seen, retention.effective(seen))[:POINTS]}
    locked = list(Checkpoint.objects.filter(id__in=first).select_for_update(no_key=True).order_by("id"))
    session = Session.objects.select_for_update(no_key=True).get(id=session_id)
    rules = retention.effective(session, locked=True)
    still = [row.id for row in expiring(session, rules)]
    chosen = [row for row in locked if row.id in still]
    if chosen:
        removal.decide(session, chosen, type_=EVENT, actor=ACTOR)
    due = RetentionDue.objects.filter(session_id=session_id)
    if len(still) > len(chosen):
        due.update(due_at=Now())
    else:
        due.delete()
    return [row.id for row in chosen]


def expiring(session: Session, rules: Rules | None) -> list[Checkpoint]:
    """What the rules do not keep of the session's points, oldest first; without rules nothing."""
    if rules is None or not rules.enabled or session.runtime_state in _GOING:
        return []
    rows = valid(session)
    kept = choose([point for point, _ in rows], rules)
    return [row for point, row in reversed(rows) if not kept[point.id]]


def valid(session: Session) -> list[tuple[Point, Checkpoint]]:
    """The points that a policy may choose from, newest first, each with its row (some of its fields)."""
    needed = needs.of(session)
    rows = Checkpoint.objects.filter(session=session, state=CheckpointState.PUBLISHED).order_by("-created_at", "-id")
    fields = ("id", "session_id", "created_at", "name", "held_at", "stored_bytes", "state")
    return [
        (
            Point(
                id=row.id,
                created_at=row.created_at,
                named=bool(row.name),
                held=row.held_at is not None,
                head=row.id == session.head_checkpoint_id,
                needed=row.id in needed,
            ),
            row,
        )
        for row in rows.only(*fields)
    ]


def _erase_decided(deadline: float) -> int:
    """Erase what is decided, of sessions that no deletion has. A store that does not answer leaves it to the next turn."""
    deletes = Operation.objects.filter(session=OuterRef("session"), kind=OperationKind.DELETE, state__in=OPERATION_ACTIVE)
    decided = Checkpoint.objects.filter(~Exists(deletes), state=CheckpointState.ERASING).order_by("-created_at")
    erased = 0
    for row in decided[: SESSIONS * POINTS]:
        if time.monotonic() > deadline:
            break
        try:
            erase.erase_checkpoint(row)
            erased += 1
        except (StoreError, Busy):
            log.warning("a checkpoint is not erased yet", extra={"checkpoint_id": row.id}, exc_info=True)
        except Exception:
            log.exception("a checkpoint could not be erased", extra={"checkpoint_id": row.id})
    return erased
