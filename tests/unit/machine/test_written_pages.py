"""Written pages of a private mapping, read from outside the process, against what the process is known to have written."""

import ctypes
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.machine.driver import PAGE_BYTES, MachineError
from workers.machine.memory import scan
from workers.machine.memory.copy import WINDOW_PAGES, PageCopier, page_addresses
from workers.machine.memory.mapping import Segment, find_mapping
from workers.machine.memory.pagemap import written_pages

PAGES = 4096
SIZE = PAGES * PAGE_BYTES
PROGRAM = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
memory = mmap.mmap(fd, int(sys.argv[2]), flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
memory[:].count(b"x")  # every page is present, and of the file
for page in map(int, sys.stdin.readline().split()):
    memory[page * 4096 : page * 4096 + 8] = page.to_bytes(8, "little")
print("written", flush=True)
sys.stdin.readline()
"""


class Writer:
    def __init__(self, image, pages):
        argv = [sys.executable, "-c", PROGRAM, image, str(SIZE)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, pages)) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "written\n"

    def __enter__(self):
        return self.process.pid

    def __exit__(self, *_):
        self.process.communicate("\n")


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("image") / "memory.img"
    path.write_bytes(np.random.default_rng(1).bytes(SIZE))
    return path


@pytest.fixture(params=["scan", "plain"], autouse=True)
def way(request, monkeypatch):
    """Both ways to ask the kernel, under the same tests."""
    if request.param == "plain":
        monkeypatch.setattr(scan, "offered", lambda: False)
    elif not scan.offered():
        pytest.skip("this kernel has no PAGEMAP_SCAN (Linux 6.7 and later)")


def read_written(pid, image):
    segments = find_mapping(pid, image.stat().st_ino, SIZE)
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        return segments, written_pages(pagemap.fileno(), segments)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pages=st.sets(st.integers(0, PAGES - 1), max_size=300) | st.just(set(range(PAGES))) | st.just(set(range(0, PAGES, 2))))
def test_exactly_the_written_pages_are_found_and_their_bytes_are_copied_in_order(image, tmp_path_factory, pages):
    expected = np.frombuffer(image.read_bytes(), dtype=np.uint8).reshape(-1, PAGE_BYTES).copy()
    for page in pages:
        expected[page, :8] = np.frombuffer(page.to_bytes(8, "little"), dtype=np.uint8)
    out = tmp_path_factory.mktemp("out") / "pages"
    with Writer(image, pages) as pid, open(out, "xb", buffering=0) as file:
        segments, found = read_written(pid, image)
        PageCopier().copy(pid, segments, found, file.fileno())
    assert found.tolist() == sorted(pages)
    assert out.read_bytes() == expected[sorted(pages)].tobytes()


def test_an_answer_that_is_longer_than_its_buffer_comes_in_parts(image, monkeypatch):
    monkeypatch.setattr(scan, "REGIONS", 7)
    with Writer(image, range(0, 200, 2)) as pid:
        _, found = read_written(pid, image)
    assert found.tolist() == list(range(0, 200, 2))


def test_a_process_that_has_lost_its_memory_is_not_one_that_wrote_nothing(image):
    with Writer(image, [1, 2, 3]) as pid:
        segments = find_mapping(pid, image.stat().st_ino, SIZE)
        pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
    try:
        with pytest.raises(MachineError) as failure:
            written_pages(pagemap, segments)
    finally:
        os.close(pagemap)
    assert failure.value.code == "capture_failed"


def test_reading_the_memory_writes_nothing_into_the_image(image):
    before = image.read_bytes()
    with Writer(image, range(10)) as pid:
        read_written(pid, image)
    assert image.read_bytes() == before


def test_a_file_that_was_reserved_too_large_is_cut_to_what_was_written(image, tmp_path):
    with Writer(image, [1, 2, 9]) as pid, open(tmp_path / "pages", "xb", buffering=0) as file:
        segments, found = read_written(pid, image)
        copier = PageCopier()
        copier.reserve(file.fileno(), 3 * WINDOW_PAGES + 7)
        copier.copy(pid, segments, found, file.fileno())
    assert (tmp_path / "pages").stat().st_size == 3 * PAGE_BYTES


def test_an_image_that_is_mapped_only_in_part_is_refused(image):
    with Writer(image, []) as pid, pytest.raises(MachineError) as refusal:
        find_mapping(pid, image.stat().st_ino, 2 * SIZE)
    assert refusal.value.code == "capture_failed"


def test_a_process_that_is_gone_is_a_dead_machine(image):
    with Writer(image, []) as pid:
        pass
    with pytest.raises(MachineError) as refusal:
        find_mapping(pid, image.stat().st_ino, SIZE)
    assert refusal.value.code == "machine_dead"


def test_memory_that_cannot_be_read_to_its_end_fails_the_capture(image, tmp_path):
    with Writer(image, []) as pid, open(tmp_path / "pages", "xb", buffering=0) as file:
        nowhere = [Segment(address=PAGE_BYTES, offset=0, length=SIZE)]
        with pytest.raises(MachineError) as failure:
            PageCopier().copy(pid, nowhere, np.array([0, 1], dtype=np.int64), file.fileno())
    assert failure.value.code == "capture_failed"


def test_a_mapping_in_two_pieces_is_one_image(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(bytes(4 * PAGE_BYTES))
    fd = os.open(path, os.O_RDONLY)
    memory = mmap.mmap(fd, 4 * PAGE_BYTES, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.madvise(address + 2 * PAGE_BYTES, PAGE_BYTES, 10) == 0  # MADV_DONTFORK splits the kernel's mapping
    segments = find_mapping(os.getpid(), path.stat().st_ino, 4 * PAGE_BYTES)
    assert len(segments) == 3
    addresses = page_addresses(segments, np.array([0, 2, 3], dtype=np.int64))
    assert (addresses - address).tolist() == [0, 2 * PAGE_BYTES, 3 * PAGE_BYTES]
    os.close(fd)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(0, 5000)))
def test_pages_of_any_split_of_the_image_are_looked_for_where_they_lie(pages):
    segments = [Segment(1 << 30, 0, 100 * PAGE_BYTES), Segment(5 << 30, 100 * PAGE_BYTES, 4901 * PAGE_BYTES)]
    expected = [(1 << 30) + page * 4096 if page < 100 else (5 << 30) + (page - 100) * 4096 for page in sorted(pages)]
    assert page_addresses(segments, np.array(sorted(pages), dtype=np.int64)).tolist() == expected


def test_one_window_never_holds_more_pieces_than_the_kernel_takes():
    assert os.sysconf("SC_IOV_MAX") >= WINDOW_PAGES
