"""The dedup index against a dictionary, and its bounds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints_app.store import UnitIndex
from checkpoints_app.store.extents import UNIT_BITS
from checkpoints_app.store.ids import ids_from_bytes


def ids(*numbers):
    return ids_from_bytes(b"".join(number.to_bytes(32, "little") for number in numbers))


@settings(max_examples=60, deadline=None)
@given(
    packs=st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=40), max_size=12), asked=st.lists(st.integers(1, 400), max_size=60)
)
def test_lookup_finds_the_oldest_place_of_each_id(packs, asked):
    index = UnitIndex()
    model: dict[int, int] = {}
    for ordinal, numbers in enumerate(packs):
        index.add_pack(f"pack{ordinal}", ids(*numbers))
        for unit, number in enumerate(numbers):
            model.setdefault(number, (ordinal << UNIT_BITS) | unit)
    found = index.lookup(ids(*asked))
    known = [number for number, position in zip(asked, found.tolist(), strict=True) if position >= 0]
    assert known == [number for number in asked if number in model]
    assert index.locations_of(found[found >= 0]).tolist() == [model[number] for number in known]


def test_an_id_with_a_known_prefix_is_another_id():
    index = UnitIndex()
    index.add_pack("p", ids(5))
    assert index.lookup(ids(5, 5 + (1 << 64), 5 + (1 << 200))).tolist() == [0, -1, -1]


def test_a_full_index_takes_no_more_and_still_answers():
    index = UnitIndex(max_units=3)
    assert (index.add_pack("a", ids(1, 2)), index.add_pack("b", ids(3, 4)), index.add_pack("c", ids(5))) == (True, False, True)
    assert index.lookup(ids(1, 3, 5)).tolist() == [0, -1, 2]
    assert len(index) == 3


def test_a_pack_enters_once():
    index = UnitIndex()
    assert (index.add_pack("a", ids(1)), index.add_pack("a", ids(1))) == (True, False)


def test_spans_tell_where_a_pack_lies_and_which_is_not_here():
    index = UnitIndex()
    index.add_pack("a", ids(1, 2))
    index.add_pack("b", ids(3))
    bases, sizes = index.spans_of(["b", "x", "a"])
    assert (bases.tolist(), sizes.tolist()) == ([2, -1, 0], [1, 0, 2])


def test_many_small_packs_are_found():
    index = UnitIndex()
    for number in range(1, 2001):
        index.add_pack(str(number), ids(number))
    assert np.array_equal(index.lookup(ids(*range(1, 2001))), np.arange(2000))
