"""The two spans of time that the dashboard shows, cut into slots."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True)
class Span:
    """`slot` is what events are counted in, `sample_slot` what samples are drawn in."""

    name: str
    title: str
    length: timedelta
    slot: timedelta
    sample_slot: timedelta
    label: str  # of strftime

    def slots(self, now: datetime, size: timedelta) -> list[datetime]:
        """The beginnings of the slots, oldest first; the last one goes on."""
        last = floor(now, size)
        number = self.length // size
        return [last - size * back for back in range(number - 1, -1, -1)]

    def labels(self, slots: list[datetime]) -> list[str]:
        return [slot.strftime(self.label) for slot in slots]


DAY = Span("24h", "24 hours", timedelta(hours=24), timedelta(hours=1), timedelta(minutes=15), "%H:%M")
WEEK = Span("7d", "7 days", timedelta(days=7), timedelta(hours=6), timedelta(hours=2), "%a %H:%M")
SPANS = {span.name: span for span in (DAY, WEEK)}

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def floor(moment: datetime, size: timedelta) -> datetime:
    return _EPOCH + (moment - _EPOCH) // size * size


def chosen(name: str | None) -> Span:
    return SPANS.get(name or "", DAY)
