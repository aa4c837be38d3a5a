"""A new memory image from its parent's: what a byte-by-byte copy would be, and as sparse."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.open_files import open_below
from tests.unit.workers.sparse_files import PAGE, noise, sparse
from workers.cache.sparse import derive

PAGES = 48
page_sets = st.sets(st.integers(0, PAGES - 1))


def packed(path: Path, numbers: list[int], seed: int) -> bytes:
    data = noise(len(numbers), seed)
    path.write_bytes(data)
    return data


@given(held=page_sets, written=page_sets, seed=st.integers(0, 1000))
def test_it_equals_the_plain_way(held: set[int], written: set[int], seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory, numbers = Path(name), sorted(written)
        base = sparse(directory / "base", PAGES, {page: noise(1, page) for page in held})
        data = packed(directory / "pages", numbers, seed)
        expected = bytearray(base.read_bytes())
        for at, page in enumerate(numbers):
            expected[page * PAGE : (page + 1) * PAGE] = data[at * PAGE : (at + 1) * PAGE]
        derive(base, directory / "made", np.array(numbers, np.int64), directory / "pages")
        assert (directory / "made").read_bytes() == bytes(expected)
        assert base.read_bytes() == sparse(directory / "again", PAGES, {page: noise(1, page) for page in held}).read_bytes()


def test_holes_stay_holes(tmp_path: Path) -> None:
    base = sparse(tmp_path / "base", 100_000, {5: noise(1, 1)})
    packed(tmp_path / "pages", [70_000], 2)
    derive(base, tmp_path / "made", np.array([70_000]), tmp_path / "pages")
    assert (tmp_path / "made").stat().st_size == 100_000 * PAGE
    assert (tmp_path / "made").stat().st_blocks * 512 < 100 * PAGE


def test_what_lay_at_the_new_name_is_gone(tmp_path: Path) -> None:
    (tmp_path / "made").write_bytes(noise(200, 9))
    base = sparse(tmp_path / "base", 8, {})
    packed(tmp_path / "pages", [1], 2)
    derive(base, tmp_path / "made", np.array([1]), tmp_path / "pages")
    assert (tmp_path / "made").read_bytes() == bytes(PAGE) + noise(1, 2) + bytes(6 * PAGE)


def test_a_file_of_pages_that_ends_early_is_an_error(tmp_path: Path) -> None:
    base = sparse(tmp_path / "base", 8, {})
    packed(tmp_path / "pages", [1], 2)
    with pytest.raises(OSError, match="ended early"):
        derive(base, tmp_path / "made", np.array([1, 2]), tmp_path / "pages")


@pytest.mark.parametrize("absent", ["base", "pages", "made"])
def test_a_failure_leaves_no_descriptor_open(tmp_path: Path, absent: str) -> None:
    sparse(tmp_path / "base", 8, {})
    packed(tmp_path / "pages", [1], 2)
    paths = {name: tmp_path / name for name in ("base", "pages", "made")} | {absent: tmp_path / "no" / "such"}
    with pytest.raises(FileNotFoundError):
        derive(paths["base"], paths["made"], np.array([1]), paths["pages"])
    assert open_below(tmp_path) == []
