"""Where the points of a fork tree lie: columns by distance from the root, rows so that no two lines cross a point. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """`order` is what siblings are sorted by, oldest first; `parent` may name a point that is not among those laid out."""

    id: str
    line: str  # the session
    parent: str | None
    order: float = 0.0


@dataclass(frozen=True)
class Place:
    column: int
    row: int


def layout(points: Sequence[Point]) -> dict[str, Place]:
    """A place for every point that is reached from a root: one without a parent among the points.

    A point stands right of its parent. The oldest child of the same line goes on in its parent's row; each other child begins a row of its
    own, below everything that lies below the ones before it. So a row holds points of one line, and no place is taken twice.
    """
    known = {point.id: point for point in points}
    children: dict[str | None, list[Point]] = defaultdict(list)
    for point in sorted(points, key=lambda one: (one.order, one.id)):
        children[point.parent if point.parent in known else None].append(point)
    places: dict[str, Place] = {}
    next_row = 0
    for root in children[None]:
        next_row = _place(root, children, places, next_row)
    return places


def _place(root: Point, children: dict[str | None, list[Point]], places: dict[str, Place], row: int) -> int:
    """Lays out what hangs on the root; returns the first row that is free. A stack, since a tree may be deeper than Python calls."""
    next_row = row + 1
    waiting: list[tuple[Point, int, int | None]] = [(root, 0, row)]
    while waiting:
        point, column, given = waiting.pop()
        if given is None:
            given, next_row = next_row, next_row + 1
        places[point.id] = Place(column, given)
        going_on = next((child for child in children[point.id] if child.line == point.line), None)
        # the row that goes on is laid out first, so that it is whole before branches take rows below it
        branches = [child for child in children[point.id] if child is not going_on]
        waiting += [(child, column + 1, None) for child in reversed(branches)]
        if going_on is not None:
            waiting.append((going_on, column + 1, given))
    return next_row
