"""Extents: any map survives its run-length form; runs that do not fit are refused."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints_app.store import spill
from checkpoints_app.store.extents import (
    BASE,
    EXTENT_BYTES,
    PACK_UNITS,
    UNIT_BITS,
    ZERO,
    ExtentError,
    Runs,
    apply_runs,
    decode_runs,
    encode_runs,
    runs_of,
    runs_where,
)

PACKS = 3
places = st.one_of(
    st.sampled_from([ZERO, BASE]),
    st.builds(
        lambda pack, unit: (pack << UNIT_BITS) | unit,
        st.integers(0, PACKS - 1),
        st.sampled_from([0, 1, 2, 3, 4, PACK_UNITS - 2, PACK_UNITS - 1]),
    ),
)


@settings(deadline=None)
@given(before=st.lists(places, min_size=1, max_size=60), after=st.lists(places, min_size=60, max_size=60))
def test_a_change_of_a_map_survives_its_encoding(before, after):
    old, new = np.array(before, np.int64), np.array(after[: len(before)], np.int64)
    changed = np.flatnonzero(old != new)
    raw = encode_runs(runs_of(changed, new[changed]))
    apply_runs(decode_runs(raw, len(old), PACKS, has_base=True), old)
    assert np.array_equal(old, new)


@settings(deadline=None)
@given(before=st.lists(places, min_size=1, max_size=60), after=st.lists(places, min_size=60, max_size=60), piece=st.integers(1, 20))
def test_a_map_that_is_walked_in_pieces_has_the_same_runs(before, after, piece):
    old, new = np.array(before, np.int64), np.array(after[: len(before)], np.int64)
    changed = np.flatnonzero(old != new)
    whole = runs_of(changed, new[changed])
    with mock.patch.object(spill, "PIECE_UNITS", piece):
        parts = runs_where(new, lambda first, part: part != old[first : first + len(part)], old)
        apply_runs(parts, old)
    assert encode_runs(parts) == encode_runs(whole)
    assert np.array_equal(old, new)


def test_consecutive_units_of_a_pack_are_one_run():
    units = np.arange(100)
    assert len(runs_of(units, units + (1 << UNIT_BITS))) == 1
    assert len(runs_of(units, np.full(100, ZERO))) == 1
    assert len(runs_of(units, np.full(100, 5))) == 100


def test_a_run_does_not_cross_into_the_next_pack():
    locations = np.array([65535, 65536])
    assert runs_of(np.arange(2), locations).counts.tolist() == [2]
    with pytest.raises(ExtentError):
        decode_runs(encode_runs(runs_of(np.arange(2), locations)), 2, 2, has_base=False)


def raw(*extents):
    columns = zip(*extents, strict=True)
    return b"".join(np.array(column).astype(kind).tobytes() for column, kind in zip(columns, ("<u4", "<u4", "<i4", "<u2"), strict=True))


@pytest.mark.parametrize(
    "extents",
    [
        [(0, 11, 0, 0)],
        [(11, 1, 0, 0)],
        [(0, 0, 0, 0)],
        [(0, 1, PACKS, 0)],
        [(0, 1, -2, 0)],
        [(0, 1, -3, 0)],
        [(0, 2, 0, PACK_UNITS - 1)],
        [(0, 1, 0, PACK_UNITS)],
        [(0, 5, 0, 0), (5, 1, 0, 0)],
        [(0xFFFFFFFF, 0xFFFFFFFF, 0, 0)] * 3,
    ],
)
def test_an_extent_that_does_not_fit_is_refused(extents):
    with pytest.raises(ExtentError):
        decode_runs(raw(*extents), 10, PACKS, has_base=False)


def test_no_change_takes_no_bytes():
    nothing = np.zeros(0, np.int64)
    assert encode_runs(Runs(nothing, nothing, nothing)) == b""
    assert len(decode_runs(b"", 10, 0, has_base=False)) == 0
    assert EXTENT_BYTES == 14
