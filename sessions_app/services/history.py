"""What a history says: the lines that restores left, and a fork's whole line, which is its parent's up to the fork and then its own."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sessions_app.errors import Invalid
from sessions_app.models import Session, SessionEvent
from sessions_app.models.event import RESTORED
from sessions_app.services import event, lineage
from sessions_app.states import SessionState

_NOT_SHOWN = frozenset({SessionState.DELETING, SessionState.DELETED})


@dataclass(frozen=True)
class Gap:
    """Lines that belong to a line and cannot be shown. `to_seq` is None where it is not known how many there were."""

    session_id: str
    from_seq: int
    to_seq: int | None
    reason: str  # deleted: with its session; unknown: of a session that is not here; not_shown: further back than is looked; missing


@dataclass(frozen=True)
class Segment:
    """A session's part of a line: to `upto`, or to its end. `absent` says why it cannot be shown, if so."""

    session_id: str
    upto: int | None
    absent: str = ""


@dataclass(frozen=True)
class LinePage:
    """`left` are the numbers of each session's events that a restore has left, by session id."""

    items: list[SessionEvent]
    next_cursor: str
    gaps: list[Gap]
    left: dict[str, list[range]] = field(default_factory=dict)


def left_by_restores(session_id: str, *, after: int, upto: int | None = None) -> list[range]:
    """Which events lie between a restore's checkpoint and that restore: their epoch was left, and they stay.

    Of restores that are later than `after`, for an earlier one has left nothing later than itself.
    """
    told = event.span(session_id, after=after, upto=upto).filter(type=RESTORED).values_list("payload", flat=True)
    return [range(one["event_watermark"] + 1, one["left_events"] + 1) for one in told]


def superseded(row: SessionEvent, left: list[range]) -> bool:
    return any(row.number in one for one in left)


def segments(session: Session) -> list[Segment]:
    """The parts of a session's whole line, oldest first."""
    above, more, unknown = lineage.line_above(session)
    found, below = [Segment(session.id, None)], session
    for ancestor in above:
        found.append(Segment(ancestor.id, below.fork_watermark, "deleted" if ancestor.runtime_state in _NOT_SHOWN else ""))
        below = ancestor
    if more or unknown:
        found.append(Segment(below.parent_id, below.fork_watermark, "not_shown" if more else "unknown"))
    return found[::-1]


def line_page(session: Session, *, cursor: str, limit: int) -> LinePage:
    """At most `limit` events of the whole line after the cursor's, and what is missing between them. Raises Invalid for a bad cursor."""
    parts, after = _from(segments(session), cursor)
    items: list[SessionEvent] = []
    gaps: list[Gap] = []
    waiting: list[Gap] = []
    for one in _walk(parts, after, limit):
        if isinstance(one, Gap):
            waiting.append(one)
        elif len(items) == limit:
            return LinePage(items, _cursor(items[-1]), gaps, _left(items, parts))
        else:
            items.append(one)
            gaps, waiting = gaps + waiting, []
    return LinePage(items, "", gaps + waiting, _left(items, parts))


def _walk(parts: list[Segment], after: int, limit: int) -> Iterator[SessionEvent | Gap]:
    for part in parts:
        yield from _read(part, after, limit)
        after = 0


def _read(part: Segment, after: int, limit: int) -> Iterator[SessionEvent | Gap]:
    """Numbers have no gaps, so a number that is not there was lost or erased, and is told."""
    if part.absent:
        if part.upto is None or part.upto > after:
            yield Gap(part.session_id, after + 1, part.upto, part.absent)
        return
    for row in event.span(part.session_id, after=after, upto=part.upto)[: limit + 1]:
        if row.number > after + 1:
            yield Gap(part.session_id, after + 1, row.number - 1, "missing")
        yield row
        after = row.number
    if part.upto is not None and after < part.upto:
        yield Gap(part.session_id, after + 1, part.upto, "missing")


def _left(items: Iterable[SessionEvent], parts: list[Segment]) -> dict[str, list[range]]:
    """A parent's restores that came after the fork have left nothing of the child's line."""
    first: dict[str, int] = {}
    for row in items:
        first.setdefault(row.session_id, row.number)
    upto = {part.session_id: part.upto for part in parts}
    return {one: left_by_restores(one, after=number, upto=upto[one]) for one, number in first.items()}


def _cursor(row: SessionEvent) -> str:
    return f"{row.session_id}.{row.number}"


def _from(parts: list[Segment], cursor: str) -> tuple[list[Segment], int]:
    if not cursor:
        return parts, 0
    session_id, _, number = cursor.partition(".")
    at = [place for place, part in enumerate(parts) if part.session_id == session_id]
    if not at or not (number.isascii() and number.isdecimal() and len(number) <= 18):
        raise Invalid("The cursor is not one that this line gave.", next_action="Begin again without a cursor.")
    return parts[at[0] :], int(number)
