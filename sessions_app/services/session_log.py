"""A session's history as lines for a person: what was set up, saved, resumed, and what failed. No command, no output of one."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sessions_app.models import Session, SessionEvent
from sessions_app.services import event, operation
from sessions_app.states import SESSION_LIVE, SessionState

_INFO, _WARNING, _ERROR = "info", "warning", "error"
_TEXT_CHARACTERS = 500

#: By the event's type: the level, and the text, filled from the payload. What is not here is told by its type alone.
_WORDS: Mapping[str, tuple[str, str]] = {
    "session.created": (_INFO, "The session was made, of the image {image}."),
    "session.imported": (_INFO, "The session was imported, parked."),
    "session.forked": (_INFO, "The session began as a fork of {parent}."),
    "session.renamed": (_INFO, "The session was renamed."),
    "session.running": (_INFO, "The machine runs."),
    "session.checkpointing": (_INFO, "A save began."),
    "session.stopping": (_INFO, "The save is published; the machine is being stopped."),
    "session.parked": (_INFO, "The machine is stopped, the work is saved."),
    "session.resuming": (_INFO, "A resume began."),
    "session.resumed": (_INFO, "The work goes on from a checkpoint, in a new epoch."),
    "session.resume_failed": (_ERROR, "The resume failed. {reason}"),
    "session.restoring": (_INFO, "A restore of {checkpoint_id} began; what ran is ended without a save."),
    "session.restored": (_INFO, "The work goes on from {checkpoint_id}, in a new epoch. Later lines stay, and are left."),
    "session.restore_failed": (_ERROR, "The restore failed; the session is parked at the head it had. {reason}"),
    "session.fork": (_INFO, "Children were made of {checkpoint_id}."),
    "session.failed": (_ERROR, "The session failed. {reason}"),
    "session.machine_lost": (_ERROR, "The machine was lost. {reason}"),
    "session.host_lost": (_ERROR, "The host was lost. {reason}"),
    "session.resume_again": (_WARNING, "The resume is tried again, on another host where one has room. {reason}"),
    "session.not_recovered": (_ERROR, "The session was not resumed by itself. {reason}"),
    "session.moved": (_INFO, "The session was moved to another host by its operator, with its memory."),
    "session.move_failed": (_WARNING, "The session was to be moved to another host, and goes on where it was. {reason}"),
    "session.recovery_policy": (_INFO, "What is done after a loss was changed."),
    "session.guest_panicked": (_ERROR, "The guest's kernel panicked. {reason}"),
    "session.guest_shutdown": (_WARNING, "The guest shut itself down. {reason}"),
    "session.clock_not_set": (_WARNING, "The guest's clock could not be set. {reason}"),
    "session.recovery_required": (_ERROR, "The history does not agree with the checkpoint; nothing was continued."),
    "history.lost": (_WARNING, "This line of the history is lost."),
    "session.idle_warning": (_WARNING, "The session is idle and will be parked."),
    "session.idle_ended": (_INFO, "The session is used again."),
    "session.bindings": (_INFO, "The provider keys that the session is bound to were changed."),
    "session.budget": (_INFO, "The session's budget was changed."),
    "session.budget_warning": (_WARNING, "Four fifths of a budget are spent ({what}): {spent} of {limit}."),
    "session.budget_exhausted": (_WARNING, "A budget is spent ({what}): {spent} of {limit}. The session is saved and parked."),
    "session.egress": (_INFO, "Where the machine may connect to was changed."),
    "session.steered": (_INFO, "A text waits for the next model call."),
    "session.deleting": (_INFO, "The session is being deleted."),
    "session.deleted": (_INFO, "The session is deleted."),
    "checkpoint.published": (_INFO, "A save is published."),
    "checkpoint.failed": (_ERROR, "A save failed; earlier ones are intact. {reason}"),
    "checkpoint.corrupt": (_ERROR, "A checkpoint is damaged and will not be resumed from."),
    "checkpoint.healed": (_INFO, "A damaged checkpoint is whole again."),
}


@dataclass(frozen=True)
class Line:
    source: str
    time: datetime
    level: str
    kind: str
    text: str


@dataclass(frozen=True)
class Log:
    """`cursor` is where to go on, also where nothing more is there now. `ends`: nothing more comes unless somebody asks for it."""

    lines: list[Line]
    cursor: str
    ends: bool
    why: str


def read(session: Session, *, after: int, limit: int) -> Log:
    """At most `limit` lines of events with a number above `after`, oldest first."""
    page = event.page(session, after=after, limit=limit)
    last = page.items[-1].number if page.items else after
    more = bool(page.next_cursor)
    quiet, why = (False, "There are more lines.") if more else _standing(session)
    return Log([line(one) for one in page.items], str(last), quiet, why)


def line(one: SessionEvent) -> Line:
    level, text = _WORDS.get(one.type, (_INFO, one.type))
    filled = text.format_map(defaultdict(str, {name: value for name, value in one.payload.items() if isinstance(value, str)}))
    return Line(one.source, one.recorded_at, level, one.type, filled.strip()[:_TEXT_CHARACTERS])


def _standing(session: Session) -> tuple[bool, str]:
    active: Any = operation.active_of([session]).get(session.id)
    if active is not None:
        return False, f"A {active.kind} is {active.state}."
    if session.runtime_state in SESSION_LIVE:
        return False, "The machine runs."
    if session.runtime_state == SessionState.PROVISIONING:
        return True, "The session waits to be provisioned."
    return True, f"The session is {session.runtime_state}, and nothing was asked of it."
