"""Sets of units as the database keeps them: small, and refused when they are damaged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints_app.store.bitmap import UnitSetError, all_units, decode_units, encode_units, union
from checkpoints_app.store.extents import PACK_UNITS

sets = st.integers(1, PACK_UNITS).flatmap(
    lambda count: st.tuples(st.just(count), st.one_of(st.sets(st.integers(0, count - 1), max_size=60), st.just(set(range(count)))))
)


def made(count, numbers):
    found = np.zeros(count, np.bool_)
    found[sorted(numbers)] = True
    return found


@given(given_set=sets)
def test_a_set_comes_back_as_it_was(given_set):
    units = made(*given_set)
    assert np.array_equal(decode_units(encode_units(units), len(units)), units)


@given(given_set=sets)
def test_a_set_has_at_most_515_bytes_and_a_whole_pack_three(given_set):
    assert len(encode_units(made(*given_set))) <= 515
    assert len(encode_units(all_units(given_set[0]))) == 3


def test_a_set_of_some_units_reads_over_a_pack_that_has_more():
    assert decode_units(encode_units(made(5, {1, 4})), 9).tolist() == made(9, {1, 4}).tolist()


def test_the_union_of_sets_is_what_any_of_them_needs():
    sets_given = [encode_units(made(9, numbers)) for numbers in ({1}, {8, 2}, set())]
    assert np.flatnonzero(union(sets_given, 9)).tolist() == [1, 2, 8]


@pytest.mark.parametrize("damaged", [b"\0", b"\0\x09\0x", b"\x01\x09\0\xff", b"\x02\x09\0zstd", b"\x07\x09\0\xff\x01", b"\0\x0a\0"])
def test_damaged_bytes_and_units_beyond_the_pack_are_refused(damaged):
    with pytest.raises(UnitSetError):
        decode_units(damaged, 9)
