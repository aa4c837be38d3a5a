"""Consecutive page numbers, taken together."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def page_runs(pages: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(first page number, number of pages) of each run of consecutive numbers in an ascending array."""
    if not len(pages):
        return
    cuts = np.flatnonzero(np.diff(pages) != 1) + 1
    starts = np.concatenate(([0], cuts))
    lengths = np.diff(np.concatenate((starts, [len(pages)])))
    yield from zip(pages[starts].tolist(), lengths.tolist(), strict=True)
