"""The interval of a rate."""

import math

Z = 1.959964  # of a 95 % interval


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a rate: sensible at the ends too, where all of few trials succeeded. ValueError without a trial."""
    if trials <= 0:
        raise ValueError("no rate without a trial")
    rate, square = successes / trials, Z * Z
    middle = (rate + square / (2 * trials)) / (1 + square / trials)
    half = Z * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials)) / (1 + square / trials)
    return middle - half, middle + half
