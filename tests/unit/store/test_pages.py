"""What the writer accepts from a capture."""

import numpy as np
import pytest

from checkpoints_app.store.ids import UNIT_BYTES
from checkpoints_app.store.pages import slices


def cut(batches, length, units=None):
    return list(slices(((np.array(numbers), data) for numbers, data in batches), length, units or -(-length // UNIT_BYTES)))


def test_batches_come_in_slices_of_bounded_size():
    parts = cut([(range(3000), bytes(3000 * UNIT_BYTES))], 3000 * UNIT_BYTES)
    assert [len(numbers) for numbers, _ in parts] == [1024, 1024, 952]


@pytest.mark.parametrize("given", [b"tail", b"tail" + bytes(UNIT_BYTES - 4)])
def test_the_last_unit_may_be_short_or_padded_with_zeros(given):
    (_, first), (_, last) = cut([([0, 1], bytes(UNIT_BYTES) + given)], UNIT_BYTES + 4)
    assert (first.shape, last.tobytes()) == ((1, UNIT_BYTES), b"tail" + bytes(UNIT_BYTES - 4))


@pytest.mark.parametrize(
    "batches",
    [
        [([1, 1], bytes(2 * UNIT_BYTES))],
        [([2, 1], bytes(2 * UNIT_BYTES))],
        [([1], bytes(UNIT_BYTES)), ([1], bytes(UNIT_BYTES))],
        [([3], bytes(UNIT_BYTES)), ([2], bytes(UNIT_BYTES))],
        [([-1], bytes(UNIT_BYTES))],
        [([10], bytes(UNIT_BYTES))],
        [([1], bytes(UNIT_BYTES - 1))],
        [([1, 2], bytes(UNIT_BYTES))],
        [([9], bytes(UNIT_BYTES - 1))],
        [([9], bytes(8) + b"x" * (UNIT_BYTES - 8))],
    ],
)
def test_numbers_and_bytes_that_do_not_fit_are_refused(batches):
    with pytest.raises(ValueError, match="unit"):
        cut(batches, 9 * UNIT_BYTES + 8)
