"""A capture's memory as the store takes it: ascending, in bounded batches, whole."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.workers.sparse_files import PAGE, noise, sparse
from workers.save import memory
from workers.save.memory import image_pages, written_pages


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "BATCH_PAGES", 4)


def collect(batches: Iterator[memory.Batch]) -> tuple[list[int], bytes]:
    numbers, data = list[int](), b""
    for part, content in batches:
        assert len(part) * PAGE == len(content) <= 4 * PAGE
        numbers += part.tolist()
        data += bytes(content)
    return numbers, data


def test_written_pages_come_in_batches_with_their_bytes(tmp_path: Path) -> None:
    numbers = np.array([0, 3, 4, 5, 90, 91, 92, 93, 1000])
    (tmp_path / "pages").write_bytes(noise(9, 1))
    assert collect(written_pages(numbers, tmp_path / "pages")) == (numbers.tolist(), noise(9, 1))


def test_no_written_page_is_no_batch(tmp_path: Path) -> None:
    (tmp_path / "pages").touch()
    assert collect(written_pages(np.empty(0, np.int64), tmp_path / "pages")) == ([], b"")


def test_a_file_of_pages_that_is_too_short_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pages").write_bytes(noise(1, 1)[:-1])
    with pytest.raises(OSError, match="1 bytes early"):
        collect(written_pages(np.array([7]), tmp_path / "pages"))


def test_an_images_pages_are_those_that_hold_data(tmp_path: Path) -> None:
    image = sparse(tmp_path / "image", 64, {2: noise(6, 1), 40: noise(1, 2)})
    assert collect(image_pages(image)) == ([2, 3, 4, 5, 6, 7, 40], noise(6, 1) + noise(1, 2))


def test_an_image_without_data_has_no_pages(tmp_path: Path) -> None:
    assert collect(image_pages(sparse(tmp_path / "image", 64, {}))) == ([], b"")


@pytest.fixture
def small_blocks(tmp_path: Path) -> Iterator[Path]:
    """A file system whose blocks are smaller than a page."""
    disk, mounted = tmp_path / "disk", tmp_path / "mounted"
    with open(disk, "wb") as file:
        file.truncate(8 << 20)
    mounted.mkdir()
    made = subprocess.run(["/sbin/mkfs.ext4", "-q", "-b", "1024", disk], capture_output=True, check=False)
    if made.returncode or subprocess.run(["mount", "-o", "loop", disk, mounted], capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system of 1 KiB blocks needs root and a loop device")
    yield mounted
    subprocess.run(["umount", mounted], check=True)


def test_a_page_that_small_blocks_cut_in_two_comes_once(small_blocks: Path) -> None:
    image = sparse(small_blocks / "image", 16, {})
    with open(image, "r+b") as file:
        for offset in (3 * PAGE, 3 * PAGE + 2048, 4 * PAGE + 3072):  # one block of each
            file.seek(offset)
            file.write(noise(1, offset)[:1024])
        file.flush()
    numbers, data = collect(image_pages(image))
    assert numbers == [3, 4]
    assert data == image.read_bytes()[3 * PAGE : 5 * PAGE]
