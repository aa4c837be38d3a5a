"""The line that leads to a checkpoint: which epochs it goes through, and which calls lie on it or on the ways that were left from it.

Every epoch but a booted one goes on from an earlier epoch of its session, or of the session that it was forked from, up to a tick.
"""

from collections.abc import Mapping
from dataclasses import dataclass

#: An epoch of a session: (session id, epoch).
Place = tuple[str, int]
#: A line is followed back so many epochs: a call that is older than that is waited for by nobody.
MOST_EPOCHS = 64


@dataclass(frozen=True)
class Origin:
    """What an epoch goes on from: all of `place` up to the tick `watermark`."""

    place: Place
    watermark: int


def line(origins: Mapping[Place, Origin], point: Origin) -> list[Origin]:
    """The epochs that lead to the point, the nearest first, each up to the tick at which the next one left it."""
    found, at = [point], point
    while len(found) < MOST_EPOCHS and (before := origins.get(at.place)) is not None:
        found.append(before)
        at = before
    return found


def left(origins: Mapping[Place, Origin], point: Origin) -> set[Place]:
    """The epochs of the same session that went on from the point or from behind it: what they did is lost to who goes back to the point."""
    found = {point.place}
    for place in sorted(place for place in origins if place[0] == point.place[0]):
        origin = origins[place]
        if origin.place in found and (origin.place != point.place or origin.watermark >= point.watermark):
            found.add(place)
    return found
