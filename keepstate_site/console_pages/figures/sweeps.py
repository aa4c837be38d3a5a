"""Recurring work: when each ran last, and whether that is too long ago, by the same measure as readiness and metrics."""

from dataclasses import dataclass

from checkpoints_app.models import Sweep
from keepstate_site.observe.sweeps import SweepAge, ages
from sessions_app.drawing.table import Look

#: Late is a doubt; after so many intervals it is an alarm.
_ALARM_INTERVALS = 10
_SLACK_SECONDS = 60.0
_RANK = {"wrong": 0, "doubt": 1, "well": 2}


@dataclass(frozen=True)
class SweepNow:
    """`age_seconds` since the last turn ended; None if none was seen to end. `done`: things done in that turn, None without a row."""

    name: str
    age_seconds: float | None
    look: Look
    done: int | None
    error: str


def sweeps() -> list[SweepNow]:
    """Every sweep of the beat's schedule, the worst first."""
    done = dict(Sweep.objects.values_list("name", "objects_done")[:100])
    found = [SweepNow(one.name, one.age_seconds, _look(one), done.get(one.name), one.error) for one in ages()]
    return sorted(found, key=lambda one: (_RANK[one.look], one.name))


def _look(one: SweepAge) -> Look:
    if one.waited_seconds is not None and one.waited_seconds > _ALARM_INTERVALS * one.interval_seconds + _SLACK_SECONDS:
        return "wrong"
    return "well" if one.state == "ok" else "doubt"
