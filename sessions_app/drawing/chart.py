"""Charts over slots of time: lines or bars, with the same figures as a table for who does not see the picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sessions_app.drawing import units
from sessions_app.drawing.svg import Svg, element, join, picture
from sessions_app.drawing.units import Format

WIDTH, HEIGHT = 640.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 10.0, 12.0, 24.0
_LABELS = 6  # along the axis of time, at most
_ROOM = 26.0  # half of such a label
_DOTS = 60  # a line with more points is drawn without them


@dataclass(frozen=True)
class Series:
    """One value for each slot; None where it is not known, which is a gap and no zero."""

    name: str
    values: Sequence[float | None]
    kind: Literal["line", "bars"] = "line"
    look: str = "ks-first"


@dataclass(frozen=True)
class Chart:
    """`slots` are the names of the slots of time, in order. `key` is unique on the page."""

    key: str
    title: str
    slots: Sequence[str]
    series: Sequence[Series]
    form: Format = units.count
    empty: str = "Nothing was recorded in this time."

    @property
    def known(self) -> list[float]:
        return [value for one in self.series for value in one.values if value is not None]

    @property
    def counts_nothing(self) -> bool:
        return all(one.kind == "bars" for one in self.series) and not any(self.known)


def chart(wanted: Chart) -> Svg:
    if not wanted.known or wanted.counts_nothing:
        return element("p", wanted.empty, class_="ks-empty")
    most = max(wanted.known)
    marks = units.size_marks(most) if wanted.form is units.size else units.marks(most)
    scale = _Scale(len(wanted.slots), marks[-1])
    drawn = picture(
        WIDTH,
        HEIGHT,
        wanted.title,
        _told(wanted),
        *_grid(marks, scale, wanted.form),
        *_times(wanted.slots, scale),
        *(_draw(one, wanted, scale) for one in wanted.series),
        class_="ks-chart",
        key=wanted.key,
    )
    return element("figure", drawn, _legend(wanted), table(wanted), class_="ks-figure")


@dataclass(frozen=True)
class _Scale:
    slots: int
    most: float

    @property
    def step(self) -> float:
        return (WIDTH - LEFT - RIGHT) / max(self.slots, 1)

    def x(self, slot: float) -> float:
        """The middle of the slot."""
        return LEFT + (slot + 0.5) * self.step

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.most


def _grid(marks: Sequence[float], scale: _Scale, form: Format) -> list[Svg]:
    return [
        join(
            (
                element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=scale.y(mark), y2=scale.y(mark), class_="ks-grid"),
                element("text", form(mark), x=LEFT - 8, y=scale.y(mark) + 4, text_anchor="end", class_="ks-mark"),
            )
        )
        for mark in marks
    ]


def _times(slots: Sequence[str], scale: _Scale) -> list[Svg]:
    every = max(1, -(-len(slots) // _LABELS))
    shown = range(every // 2, len(slots), every)
    return [
        element("text", slots[at], x=min(scale.x(at), WIDTH - _ROOM), y=HEIGHT - 6, text_anchor="middle", class_="ks-mark") for at in shown
    ]


def _draw(series: Series, wanted: Chart, scale: _Scale) -> Svg:
    return (_bars if series.kind == "bars" else _line)(series, wanted, scale)


def _bars(series: Series, wanted: Chart, scale: _Scale) -> Svg:
    beside = [one for one in wanted.series if one.kind == "bars"]
    width = scale.step * 0.8 / len(beside)
    shift = beside.index(series) * width - scale.step * 0.4
    base = scale.y(0)
    return join(
        element(
            "rect",
            element("title", _point(series, wanted, slot, value)),
            x=scale.x(slot) + shift,
            y=scale.y(value),
            width=width,
            height=base - scale.y(value),
            class_=f"ks-bar {series.look}",
        )
        for slot, value in enumerate(series.values)
        if value
    )


def _line(series: Series, wanted: Chart, scale: _Scale) -> Svg:
    lines = [
        element("polyline", points=" ".join(f"{scale.x(slot):.1f},{scale.y(value):.1f}" for slot, value in run), class_=series.look)
        for run in _runs(series.values)
        if len(run) > 1
    ]
    alone = {run[0][0] for run in _runs(series.values) if len(run) == 1}
    dots = [
        element(
            "circle",
            element("title", _point(series, wanted, slot, value)),
            cx=scale.x(slot),
            cy=scale.y(value),
            r=2.5,
            class_=f"ks-dot {series.look}",
        )
        for slot, value in enumerate(series.values)
        if value is not None and (len(wanted.slots) <= _DOTS or slot in alone)
    ]
    return element("g", *lines, *dots)


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The values without gaps: a line is not drawn across what is not known."""
    runs: list[list[tuple[int, float]]] = [[]]
    for slot, value in enumerate(values):
        if value is not None:
            runs[-1].append((slot, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _point(series: Series, wanted: Chart, slot: int, value: float) -> str:
    return f"{wanted.slots[slot]}: {series.name} {wanted.form(value)}"


def _told(wanted: Chart) -> str:
    """The picture in a sentence: for each series its last known value and its greatest."""
    parts = []
    for one in wanted.series:
        values = [value for value in one.values if value is not None]
        if values:
            parts.append(f"{one.name}: last {wanted.form(values[-1])}, greatest {wanted.form(max(values))}")
    return f"{'; '.join(parts)}. The same figures stand in the table below it."


def _legend(wanted: Chart) -> Svg:
    if len(wanted.series) < 2:
        return Svg()
    return element("p", *(element("span", one.name, class_=f"ks-key {one.look}") for one in wanted.series), class_="ks-legend")


def table(wanted: Chart) -> Svg:
    head = element("tr", element("th", "Time (UTC)", scope="col"), *(element("th", one.name, scope="col") for one in wanted.series))
    rows = [
        element("tr", element("th", slot, scope="row"), *(element("td", units.known(one.values[at], wanted.form)) for one in wanted.series))
        for at, slot in enumerate(wanted.slots)
    ]
    grid = element("table", element("caption", wanted.title), element("thead", head), element("tbody", *rows), class_="ks-table")
    return element("details", element("summary", "As a table"), grid, class_="ks-as-table")
