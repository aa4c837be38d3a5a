"""The dashboard's charts."""

from keepstate_site.console_pages.figures import clock, gauges, operations
from keepstate_site.console_pages.figures.span import Span
from sessions_app.drawing import units
from sessions_app.drawing.chart import Chart, Series, chart
from sessions_app.drawing.svg import Svg
from sessions_app.drawing.units import Format
from sessions_app.services.sample import RUNNING_MACHINES, STORED_BYTES
from sessions_app.states import OperationKind

_NO_SAMPLES = "No sample was taken in this time. They are taken every five minutes while the beat and a worker run."


def machines(span: Span) -> Svg:
    return _gauge("machines", "Running machines", RUNNING_MACHINES, span, units.count)


def stored(span: Span) -> Svg:
    return _gauge("stored", "Bytes in the store", STORED_BYTES, span, units.size)


def _gauge(key: str, title: str, gauge: str, span: Span, form: Format) -> Svg:
    slots, values = gauges.over(gauge, span, clock.now())
    return chart(Chart(key, f"{title}, {span.title}", span.labels(slots), [Series(title.lower(), values)], form, _NO_SAMPLES))


def saves(span: Span) -> Svg:
    found = operations.by_slot(OperationKind.CHECKPOINT, span, clock.now())
    series = [Series("saved", found.succeeded, "bars"), Series("failed", found.failed, "bars", "ks-bad")]
    hours = span.slot.total_seconds() / 3600
    empty = "No save was asked for in this time."
    return chart(Chart("saves", f"Saves asked for, per {hours:g} h, {span.title}", span.labels(found.starts), series, empty=empty))


def resumes(span: Span) -> Svg:
    found = operations.by_slot(OperationKind.RESUME, span, clock.now())
    series = [Series("p50", found.p50), Series("p95", found.p95, look="ks-other")]
    empty = "No resume succeeded in this time."
    title = f"Resume, request to running machine, {span.title}"
    return chart(Chart("resumes", title, span.labels(found.starts), series, units.seconds, empty))
