"""Sampled gauges over time: the greatest value in each slot; None where no sample was taken."""

from datetime import datetime, timedelta

from keepstate_site.console_pages.figures.span import Span, floor
from sessions_app.services import sample


def over(gauge: str, span: Span, now: datetime) -> tuple[list[datetime], list[float | None]]:
    size: timedelta = span.sample_slot
    slots = span.slots(now, size)
    greatest: dict[datetime, int] = {}
    for at, value in sample.between(gauge, slots[0]):
        slot = floor(at, size)
        greatest[slot] = max(value, greatest.get(slot, value))
    return slots, [greatest.get(slot) for slot in slots]
