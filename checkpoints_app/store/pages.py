"""What a capture hands to the writer: batches of written units, checked and cut into slices of bounded size."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from .backends.backend import Chunk
from .extents import Int64s
from .ids import UNIT_BYTES

Units = npt.NDArray[np.uint8]  # shape (n, 4096)
Pages = Iterable[tuple[Int64s, Chunk]]
_SLICE_UNITS = 1024  # 4 MiB at a time through hashing and lookup


def slices(pages: Pages, length_bytes: int, image_units: int) -> Iterator[tuple[Int64s, Units]]:
    """The batches in slices. ValueError unless numbers ascend over all batches, lie in the image and match their bytes.

    Where the image ends within its last unit, that unit may be given short; given whole, its rest must be zero.
    """
    last = -1
    for given, chunk in pages:
        numbers = np.asarray(given, np.int64)
        if len(numbers) == 0:
            continue
        if numbers[0] <= last or (np.diff(numbers) <= 0).any() or numbers[-1] >= image_units:
            raise ValueError("unit numbers must ascend, without repetition, and lie in the image")
        last = int(numbers[-1])
        flat = np.frombuffer(chunk, np.uint8)
        tail_bytes = length_bytes - last * UNIT_BYTES
        if tail_bytes >= UNIT_BYTES:
            yield from _cut(numbers, flat)
        else:
            body = (len(numbers) - 1) * UNIT_BYTES
            yield from _cut(numbers[:-1], flat[:body])
            yield numbers[-1:], _padded(flat[body:], tail_bytes)


def _cut(numbers: Int64s, flat: npt.NDArray[np.uint8]) -> Iterator[tuple[Int64s, Units]]:
    if len(flat) != len(numbers) * UNIT_BYTES:
        raise ValueError(f"{len(flat)} bytes for {len(numbers)} units of {UNIT_BYTES}")
    units = flat.reshape(-1, UNIT_BYTES)
    for start in range(0, len(numbers), _SLICE_UNITS):
        yield numbers[start : start + _SLICE_UNITS], units[start : start + _SLICE_UNITS]


def _padded(flat: npt.NDArray[np.uint8], tail_bytes: int) -> Units:
    if len(flat) not in (tail_bytes, UNIT_BYTES) or flat[tail_bytes:].any():
        raise ValueError("the last unit does not end where the image ends")
    unit = np.zeros((1, UNIT_BYTES), np.uint8)
    unit[0, :tail_bytes] = flat[:tail_bytes]
    return unit
