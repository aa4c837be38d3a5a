"""Arrays outside of memory: the same content, little of it resident, no file left."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from checkpoints_app.store import spill

LARGE = 4 * spill.IN_MEMORY_BYTES // 8  # entries of 8 bytes


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(spill._place, "directory", tmp_path / "spill")
    return tmp_path / "spill"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_small_array_is_an_ordinary_one(directory: Path) -> None:
    array = spill.full(1000, 7)
    assert spill.spilled_bytes(array) == 0
    assert not directory.exists()
    assert (array == 7).all()


def test_a_large_array_keeps_its_content_when_its_pages_leave_memory(directory: Path) -> None:
    array = spill.full(LARGE, 7)
    array[::1000] = np.arange(len(array[::1000]))
    spill.release(array)
    assert spill.spilled_bytes(array) == array.nbytes
    assert np.array_equal(array[::1000], np.arange(len(array[::1000])))
    assert (array[1::1000] == 7).all()


def test_a_part_of_a_large_array_is_released_as_its_whole(directory: Path) -> None:
    part = spill.full(LARGE, 7)[10:]
    part[:] = 8
    before = resident_bytes()
    spill.release(part)
    assert resident_bytes() < before - part.nbytes // 2
    assert (part == 8).all()


def test_a_large_array_is_walked_without_becoming_resident(directory: Path) -> None:
    array = spill.full(8 * LARGE, 1)
    before = resident_bytes()
    most = 0
    total = 0
    for _, piece in spill.pieces(array):
        total += int(piece.sum())
        most = max(most, resident_bytes())
    assert total == len(array)
    assert most - before < array.nbytes // 8


def test_a_copy_has_room_for_more_rows(directory: Path) -> None:
    made = spill.copy(np.arange(2 * LARGE, dtype=np.int64).reshape(-1, 2), 2 * LARGE)
    assert made.shape == (2 * LARGE, 2)
    assert np.array_equal(made[:LARGE].reshape(-1), np.arange(2 * LARGE))


def test_no_file_has_a_name(directory: Path) -> None:
    array = spill.full(LARGE, 7)
    assert array.any()
    assert list(directory.iterdir()) == []


def test_where_there_is_no_room_it_is_said_before_anything_is_written(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full_disk)
    with pytest.raises(OSError, match="No space"):
        spill.empty(LARGE, np.int64)
