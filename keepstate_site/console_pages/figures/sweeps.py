"""Recurring work: when each ran last, and whether that is too long ago."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from checkpoints_app.models import Sweep

#: The entry of the schedule that runs a sweep, where it has another name.
ENTRY: Mapping[str, str] = {"scrub": "store_upkeep", "orphans": "store_orphans"}
#: Late after so many periods, and so many for the alarm; a turn may wait for another one of its queue.
LATE, ALARM = 3, 10
GRACE = timedelta(minutes=2)


@dataclass(frozen=True)
class SweepNow:
    """`age` since the last end (or the beginning of a turn that never ended); None if it never ran. `look`: well, doubt or wrong."""

    name: str
    age: timedelta | None
    look: str
    done: int
    error: str


def sweeps(now: datetime) -> list[SweepNow]:
    """Every sweep that is scheduled or has a row, the worst first."""
    rows = {row.name: row for row in Sweep.objects.all()[:100]}
    entries = {entry: name for name, entry in ENTRY.items()}
    scheduled = {entries.get(name, name) for name in settings.CELERY_BEAT_SCHEDULE} - _WITHOUT_ROWS
    found = [_sweep(name, rows.get(name), now) for name in sorted(scheduled | set(rows))]
    return sorted(found, key=lambda one: (_RANK[one.look], one.name))


#: These ring others and keep no row: what they fail to do shows as stuck operations.
_WITHOUT_ROWS = {"sweep", "lifecycle"}
_RANK = {"wrong": 0, "doubt": 1, "well": 2}


def _sweep(name: str, row: Sweep | None, now: datetime) -> SweepNow:
    last = row and (row.finished_at or row.started_at)
    if row is None or last is None:
        return SweepNow(name, None, "doubt", 0, "")
    age = max(now - last, timedelta(0))
    return SweepNow(name, age, _look(name, age, row.error), row.objects_done, row.error)


def _look(name: str, age: timedelta, error: str) -> str:
    entry = settings.CELERY_BEAT_SCHEDULE.get(ENTRY.get(name, name))
    period = timedelta(seconds=entry["schedule"]) if entry else None
    if period is not None and age > ALARM * period + GRACE:
        return "wrong"
    late = period is not None and age > LATE * period + GRACE
    return "doubt" if late or error else "well"
