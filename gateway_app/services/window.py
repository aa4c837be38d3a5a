"""The replay window of an epoch, opened in the commit that begins the epoch: what of the record may answer the machine's requests.

Which calls and why is `gateway_app.calls`; here they are read, a bounded number, and written. A checkpoint without a tick (imported, or
older than the gateway) opens none.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from gateway_app.calls.line import Origin, Place, left, line
from gateway_app.calls.window import Recorded, Why, window
from gateway_app.models import Call, EpochOrigin, WindowEntry
from gateway_app.states import CallState
from sessions_app.models import Session
from sessions_app.services import steps

#: Under this name a checkpoint keeps the tick.
CALLS = "calls"
#: How long an entry stays open. Who waits for a call asks again for as long as its client does: some for more than an hour and a half.
OPEN = {Why.IN_FLIGHT: timedelta(hours=2), Why.UNREAD: timedelta(minutes=15), Why.LOST: timedelta(minutes=15)}
#: The oldest of a window come first, so a machine that repeats more calls than these has the window's time behind it anyway.
MOST_CALLS = 2000
_KEPT = timedelta(days=1)
_BATCH = 1000


def watermark(session_id: str) -> dict[str, int]:
    """A tick that is drawn now: a call that has started has a lower one, a later call a higher one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('gateway_app_tick')")
        return {CALLS: cursor.fetchone()[0]}


def open_epoch(session: Session, checkpoint_id: str) -> None:
    """The window of the session's present epoch. Safe to repeat. Prerequisite: inside the commit that begins the epoch."""
    saved = steps.saved_point.call(session, checkpoint_id)
    tick = saved.watermarks.get(CALLS)
    if tick is None:
        return
    point = Origin((session.id, saved.source_epoch), tick)
    _not_behind(point.watermark)
    place: dict[str, Any] = {"session": session, "epoch": session.epoch}
    origin = {"from_id": point.place[0], "from_epoch": point.place[1], "watermark": point.watermark}
    EpochOrigin.objects.update_or_create(**place, defaults=origin)
    entries = window(_calls(_origins(session), point), point.watermark)
    WindowEntry.objects.bulk_create(
        [
            WindowEntry(**place, call_id=entry.call_id, why=entry.why, order=entry.order, open_until=Now() + OPEN[entry.why])
            for entry in entries
        ],
        ignore_conflicts=True,
    )


def carry_on(parent: Session, child: Session, point: steps.SavedPoint) -> None:
    """A fork's child has its parent's moment: what led there is the parent's line. Prerequisite: inside the commit that makes the child."""
    tick = point.watermarks.get(CALLS)
    if tick is not None:
        origin = {"from_id": parent.id, "from_epoch": point.source_epoch, "watermark": tick}
        EpochOrigin.objects.create(session=child, epoch=child.epoch, **origin)


def _not_behind(tick: int) -> None:
    """A database that was restored from a backup, or rebuilt, draws ticks that checkpoints have already: it goes on behind them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('gateway_app_tick', %s) FROM gateway_app_tick WHERE last_value < %s", [tick, tick])


def _origins(session: Session) -> dict[Place, Origin]:
    """Of the session's own epochs and, back to their beginning, of those that it was forked from."""
    found: dict[Place, Origin] = {}
    waiting = [session.id]
    while waiting:
        rows = EpochOrigin.objects.filter(session_id__in=waiting).order_by("-epoch")
        told = list(rows.values_list("session_id", "epoch", "from_id", "from_epoch", "watermark")[:MOST_CALLS])
        known = {place[0] for place in found} | set(waiting)
        found |= {(id_, epoch): Origin((from_id, from_epoch), tick) for id_, epoch, from_id, from_epoch, tick in told}
        waiting = sorted({row[2] for row in told} - known)
    return found


def _calls(origins: Mapping[Place, Origin], point: Origin) -> list[Recorded]:
    """In the order of their starts. Only what had not ended when the last of them started can be waited for, or unread."""
    on_line, behind = line(origins, point), left(origins, point)
    upto = {one.place: one.watermark for one in reversed(on_line)}
    wanted = Q(session_id=point.place[0])
    for (session_id, _), tick in upto.items():
        wanted |= Q(session_id=session_id, started__lte=tick)
    rows = Call.objects.filter(wanted).filter(Q(ended__isnull=True) | Q(ended__gt=_last_start(on_line))).order_by("started")
    told = rows.values_list("id", "session_id", "epoch", "started", "ended", "state").iterator(chunk_size=_BATCH)
    return list(islice(_on_the_way(told, upto, behind, point.watermark), MOST_CALLS))


def _last_start(on_line: list[Origin]) -> int:
    """The tick of the last call on the line that had started: nearer epochs have higher ticks."""
    for one in on_line:
        rows = Call.objects.filter(session_id=one.place[0], epoch=one.place[1], started__lte=one.watermark)
        found = rows.order_by("-started").values_list("started", flat=True).first()
        if found is not None:
            return int(found)
    return 0


def _on_the_way(
    told: Iterator[tuple[str, str, int, int, int | None, str]], upto: Mapping[Place, int], behind: set[Place], watermark: int
) -> Iterator[Recorded]:
    for id_, session_id, epoch, started, ended, state in told:
        place = (session_id, epoch)
        if started <= upto.get(place, 0) or (place in behind and started > watermark):
            yield Recorded(id_, started, ended, replayable=state == CallState.COMPLETE, open=state == CallState.OPEN)


def forget_old() -> int:
    """A batch of entries whose time was over long ago. Returns how many."""
    old = WindowEntry.objects.filter(open_until__lt=Now() - _KEPT).order_by("open_until").values("id")[:_BATCH]
    return WindowEntry.objects.filter(id__in=old).delete()[0]
