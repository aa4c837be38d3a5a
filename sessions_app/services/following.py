"""What a follower of sessions asks of the database: few, short, bounded questions for many followers at once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sessions_app.models import Session, SessionEvent
from sessions_app.services import token as tokens
from sessions_app.states import SessionState

#: PostgreSQL's channel on which every appended event is told, with its session's id.
CHANNEL = "keepstate_events"
#: Events of one read.
BATCH = 200


@dataclass(frozen=True)
class Head:
    """How far a session's history goes, and whether anything can follow."""

    last: int
    deleted: bool


GONE = Head(0, deleted=True)


def heads(session_ids: Iterable[str]) -> Mapping[str, Head]:
    """One query. A session whose row is gone is deleted."""
    ids = list(session_ids)
    rows = Session.objects.filter(id__in=ids).values_list("id", "event_count", "runtime_state")
    found = {one: Head(last, state == SessionState.DELETED) for one, last, state in rows}
    return {one: found.get(one, GONE) for one in ids}


def after(session_id: str, number: int) -> list[SessionEvent]:
    """The next events, oldest first, a batch at most."""
    return list(SessionEvent.objects.filter(session_id=session_id, number__gt=number).order_by("number")[:BATCH])


def live_tokens(token_ids: Iterable[str]) -> set[str]:
    """Those of the tokens that still open something."""
    return set(tokens.live().filter(id__in=list(token_ids)).values_list("id", flat=True))
