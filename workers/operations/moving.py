"""A session on its way from one host to another: the save that stops it is followed, in one commit, by a resume elsewhere.

The parameters of the save say where it shall go (`to`; '' for any host that can take it), and whether commands are cut off (`cut`). The
resume's say where it comes from, and what the save has stored.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint
from sessions_app.errors import Cancelled, ServiceError
from sessions_app.models import Operation, Session, SessionEvent
from sessions_app.services import activity, event, lifecycle, placement, record
from sessions_app.services import session as sessions
from sessions_app.services.database import hold
from sessions_app.services.placement import Place, Placement
from sessions_app.services.steps import place_resume
from sessions_app.states import RecordKind, ResumedBy
from workers.host import liveness, targets
from workers.host.identity import host_id
from workers.host.placement import LOCK
from workers.host.room import room
from workers.operations.work import Work

log = logging.getLogger(__name__)


def require_no_command(work: Work) -> None:
    """Of a save for a move: a command that was asked for meanwhile is waited for, unless that was done long enough. Raises Cancelled."""
    asked = work.operation.parameters
    if asked.get("by") == lifecycle.MOVE and not asked.get("cut") and activity.command_runs(work.session):
        raise Cancelled("A command runs in the session: the move waits for it.")


def go_on(session: Session, save: Operation, checkpoint: Checkpoint) -> None:
    """Prerequisite: inside the commit that parks the session and ends the save. Effects: a resume is asked for, if the save is a move's."""
    asked = save.parameters
    if asked.get("by") != lifecycle.MOVE:
        return
    try:
        resume(session, asked["from"], asked["to"], stored_bytes=checkpoint.stored_bytes, leaves_now=True)
    except ServiceError as refusal:  # its account is closing, or it was deleted: it stays parked
        log.warning("a session that was moved is not resumed", extra={"session_id": session.id, "reason": refusal.message})


def resume(
    session: Session,
    left: str,
    to: str,
    *,
    stored_bytes: int | None,
    leaves_now: bool = False,
    avoid: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Operation:
    """Ask for the resume of a session that was parked to be moved. Prerequisite: it is locked, and nothing of it is active.

    It is placed on a host that has room now, on `avoid` last. Where the last of them has gone since the move was asked for, it goes on
    where it was, from that host's hot image: an operator's move never leaves a session parked for want of a host, unless the one that it
    left is gone too. Raises as `sessions.resume_unasked`.

    `leaves_now`: this commit frees the room that it had there, so that nobody else can have been promised it. Later it may be another's,
    and then the resume waits.
    """
    told = {"from": left, "to": to, "stored_bytes": stored_bytes, **(facts or {})}
    return sessions.resume_unasked(session, by=ResumedBy.MOVED, place=_place(session, left, to, avoid, leaves_now=leaves_now), facts=told)


def _place(session: Session, left: str, to: str, avoid: str, *, leaves_now: bool) -> Place:
    def place() -> Placement:
        able = sorted(targets.away_from(session, left), key=lambda host: host == avoid)
        for host in [to] if to else able:
            try:
                placed = place_resume.call(session=session, checkpoint_id=session.head_checkpoint_id, host_id=host)
            except ServiceError:
                continue
            if placed.host_id and not placed.waits_for:
                return placed
        if _takes_it_back(left, session, leaves_now=leaves_now):
            return placement.on(left, session.memory_bytes)
        return place_resume.call(session=session, checkpoint_id=session.head_checkpoint_id)

    return place


def _takes_it_back(left: str, session: Session, *, leaves_now: bool) -> bool:
    """A host that drains does too."""
    hold(LOCK)
    here = liveness.alive().filter(id=left)
    return here.exists() and (leaves_now or room(here)[left] >= session.memory_bytes)


def arrived(work: Work, figures: dict[str, Any]) -> None:
    """Prerequisite: inside the commit in which a resume makes the session run. Its history and the service record tell of a move; between
    which hosts, the record alone.
    """
    asked = work.operation.parameters
    if asked.get("by") != ResumedBy.MOVED:
        return
    type_ = "session.moved" if host_id() != asked["from"] else "session.move_failed"
    facts = {
        "stored_bytes": asked["stored_bytes"],
        "fetched_bytes": figures["fetched_bytes"],
        "seconds_away": _seconds_away(work.session),
    }
    if type_ == "session.move_failed":
        facts["reason"] = f"{_why_it_stayed(work)}: it goes on where it was"
    event.append(work.session.id, type_, facts, source=work.source)
    told = {"from": asked["from"], "to": host_id(), **facts}
    record.write(RecordKind.LIFECYCLE, type_, account_id=work.session.account_id, session_id=work.session.id, actor=work.source, facts=told)


def _why_it_stayed(work: Work) -> str:
    asked = work.operation.parameters
    if asked.get("failed_elsewhere"):
        return "its resume on another host failed"
    if work.lease.attempt > 1:
        return "no other host could take it any more, or the one that had taken it was lost"
    return "the host that it was to go to could not take it any more" if asked["to"] else "no other host could take it any more"


def _seconds_away(session: Session) -> float | None:
    """From the begin of the save, a moment before the machine stood still, until its guest answered elsewhere; by the database's clock."""
    began = SessionEvent.objects.filter(session=session, type="session.checkpointing").order_by("-number")
    away = began.annotate(away=Now() - F("recorded_at")).values_list("away", flat=True).first()
    return None if away is None else round(away.total_seconds(), 3)
