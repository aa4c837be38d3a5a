"""Figures in words for a reader, and the marks of an axis."""

from collections.abc import Callable
from math import ceil, floor, log, log10

Format = Callable[[float], str]

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
NOT_KNOWN = "–"


def count(value: float) -> str:
    return f"{value:,.0f}"


def seconds(value: float) -> str:
    """Milliseconds, seconds, minutes, hours or days, whichever reads best."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    for most, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if value < most:
            return f"{value / size:.3g} {unit}"
    return f"{value / 86_400:.3g} d"


def size(value: float) -> str:
    """Bytes in powers of 1024."""
    power = 0
    while value >= 1024 and power < len(_BYTES) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.3g} {_BYTES[power]}" if power else f"{value:.0f} B"


def known(value: float | None, form: Format) -> str:
    return NOT_KNOWN if value is None else form(value)


def size_marks(most: float) -> list[float]:
    """As `marks`, round in the unit in which the sizes are read."""
    unit = 1024.0 ** max(0, min(floor(log(most, 1024)) if most > 1 else 0, len(_BYTES) - 1))
    return [mark * unit for mark in marks(most / unit)]


def marks(most: float, wanted: int = 3) -> list[float]:
    """Round marks from 0 to at least `most`, about as many steps as wanted; never fewer than one step."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / wanted
    power = 10.0 ** floor(log10(rough))
    step = next((power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough), power * 10)
    return [step * number for number in range(ceil(most / step - 1e-9) + 1)]
