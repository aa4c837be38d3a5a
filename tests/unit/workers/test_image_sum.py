"""The sum of an assembled image: whatever differs in it, the sum differs."""

import os
from pathlib import Path

import pytest

from tests.support.open_files import open_below
from tests.unit.workers.sparse_files import PAGE, noise, sparse
from workers.cache import image_sum as module
from workers.cache.image_sum import data_extents, image_sum

KEY = bytes(range(32))


def sum_of(path: Path) -> str:
    return image_sum(path, KEY)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small file has many."""
    monkeypatch.setattr(module, "PIECE_BYTES", 4 * PAGE)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Three extents; one spans several pieces."""
    return sparse(tmp_path / "image", 256, {0: noise(1, 1), 64: noise(10, 2), 200: noise(2, 3)})


def test_the_same_content_has_the_same_sum(image: Path, tmp_path: Path) -> None:
    again = sparse(tmp_path / "again", 256, {0: noise(1, 1), 64: noise(10, 2), 200: noise(2, 3)})
    assert sum_of(image) == sum_of(again) == sum_of(image)


@pytest.mark.parametrize("page", [0, 64, 67, 68, 73, 200, 201])
@pytest.mark.parametrize("at", [0, PAGE - 1])
@pytest.mark.parametrize("bit", [0, 7])
def test_any_flipped_bit_changes_it(image: Path, page: int, at: int, bit: int) -> None:
    before = sum_of(image)
    with open(image, "r+b") as file:
        offset = page * PAGE + at
        byte = os.pread(file.fileno(), 1, offset)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), offset)
    assert sum_of(image) != before


def test_an_extent_that_moved_changes_it(image: Path, tmp_path: Path) -> None:
    moved = sparse(tmp_path / "moved", 256, {0: noise(1, 1), 65: noise(10, 2), 200: noise(2, 3)})
    assert sum_of(moved) != sum_of(image)


def test_extents_that_changed_places_change_it(tmp_path: Path) -> None:
    one = sparse(tmp_path / "one", 64, {0: noise(1, 1), 32: noise(1, 2)})
    other = sparse(tmp_path / "other", 64, {0: noise(1, 2), 32: noise(1, 1)})
    assert sum_of(one) != sum_of(other)


def test_another_key_gives_another_sum(image: Path) -> None:
    assert image_sum(image, KEY[::-1]) != sum_of(image)


def test_bytes_in_a_hole_change_it(image: Path) -> None:
    before = sum_of(image)
    with open(image, "r+b") as file:
        os.pwrite(file.fileno(), b"x", 128 * PAGE)
    assert sum_of(image) != before


@pytest.mark.parametrize("pages", [255, 257])
def test_another_length_changes_it(image: Path, pages: int) -> None:
    before = sum_of(image)
    os.truncate(image, pages * PAGE)
    assert sum_of(image) != before


def test_a_file_without_data_has_a_sum_of_its_length(tmp_path: Path) -> None:
    assert sum_of(sparse(tmp_path / "one", 16, {})) != sum_of(sparse(tmp_path / "two", 17, {}))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sum_of(tmp_path / "absent")


def test_no_descriptor_stays_open(image: Path) -> None:
    sum_of(image)
    assert open_below(image.parent) == []


def test_the_data_of_a_sparse_file_is_found_where_it_lies(image: Path) -> None:
    with open(image, "rb") as file:
        extents = list(data_extents(file.fileno()))
    assert extents == [(0, PAGE), (64 * PAGE, 74 * PAGE), (200 * PAGE, 202 * PAGE)]
