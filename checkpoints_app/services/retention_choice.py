"""Which saved points of a session a policy keeps, and why: a pure function of the points and the rules.

Hours, days and weeks are of UTC, and only those in which there is a point count: a session that rests keeps what it has, however long.
So the choice does not depend on the moment at which it is made, and choosing again among what was kept expires nothing more.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sessions_app.services.retention import Rules


@dataclass(frozen=True)
class Point:
    """A valid checkpoint. `needed`: an operation or a machine needs it now."""

    id: str
    created_at: datetime
    named: bool = False
    held: bool = False
    head: bool = False
    needed: bool = False


#: What no policy touches, whatever it says.
_NEVER: tuple[str, ...] = ("head", "named", "held", "needed")

_PERIODS: Mapping[str, Callable[[datetime], Any]] = {
    "keep_hourly": lambda moment: (moment.date(), moment.hour),
    "keep_daily": lambda moment: moment.date(),
    "keep_weekly": lambda moment: moment.isocalendar()[:2],
}


def choose(points: Iterable[Point], rules: Rules) -> dict[str, tuple[str, ...]]:
    """By the id of each point what keeps it, newest point first: words of `_NEVER` and names of rules. Empty: it expires."""
    ordered = sorted(points, key=lambda point: (point.created_at, point.id), reverse=True)
    kept = {point.id: [word for word in _NEVER if getattr(point, word)] for point in ordered}
    counted = [point for point in ordered if not (point.named and rules.keep_named)]
    for point in counted[: rules.keep_last]:
        kept[point.id].append("keep_last")
    for name, period_of in _PERIODS.items():
        for point in _newest_of_periods(counted, period_of, rules.counts[name]):
            kept[point.id].append(name)
    return {point_id: tuple(reasons) for point_id, reasons in kept.items()}


def _newest_of_periods(newest_first: list[Point], period_of: Callable[[datetime], Any], count: int) -> Iterable[Point]:
    newest: dict[Any, Point] = {}
    for point in newest_first:
        newest.setdefault(period_of(point.created_at.astimezone(UTC)), point)
    return list(newest.values())[:count]
