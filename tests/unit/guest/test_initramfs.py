"""The parts of an initramfs: its archive format, and the libraries of a program."""

import sys
from pathlib import Path

import pytest

from workers.guest import cpio
from workers.guest.elf import libraries_of, needed
from workers.guest.errors import ImageError


def parse(archive: bytes) -> list[tuple[str, int, bytes]]:
    entries: list[tuple[str, int, bytes]] = []
    place = 0
    while True:
        assert archive[place : place + 6] == b"070701"
        fields = [int(archive[place + 6 + 8 * n : place + 14 + 8 * n], 16) for n in range(13)]
        name = archive[place + 110 : place + 109 + fields[11]].decode()
        start = place + -(-(110 + fields[11]) // 4) * 4
        if name == "TRAILER!!!":
            return entries
        entries.append((name, fields[1], archive[start : start + fields[6]]))
        place = start + -(-fields[6] // 4) * 4


def test_an_archive_holds_files_links_and_every_directory_above_them():
    archive = cpio.archive([cpio.file("usr/lib/a", b"12345", 0o755), cpio.symlink("bin/sh", "busybox"), cpio.directory("proc")])
    assert parse(archive) == [
        ("bin", 0o040755, b""),
        ("bin/sh", 0o120777, b"busybox"),
        ("proc", 0o040755, b""),
        ("usr", 0o040755, b""),
        ("usr/lib", 0o040755, b""),
        ("usr/lib/a", 0o100755, b"12345"),
    ]


def test_the_order_of_entries_does_not_change_the_archive():
    entries = [cpio.file("b/x", b"1"), cpio.file("a", b"2"), cpio.file("b-c", b"3")]
    assert cpio.archive(entries) == cpio.archive(reversed(entries))


def test_two_files_of_one_name_are_refused():
    with pytest.raises(ImageError, match="bin/sh"):
        cpio.archive([cpio.file("bin/sh", b"1"), cpio.file("bin/sh", b"2")])


def test_the_libraries_of_a_real_program_are_read():
    names, loader = needed(Path(sys.executable).resolve().read_bytes())
    assert "libc.so.6" in names
    assert loader is not None
    assert "ld-linux" in loader


def test_a_library_that_no_package_brought_is_named(tmp_path: Path):
    with pytest.raises(ImageError, match=r"ld-linux.* in none of the packages"):
        libraries_of(Path(sys.executable).resolve(), tmp_path)


def test_a_link_that_leads_out_of_the_packages_is_not_followed(tmp_path: Path):
    _, loader = needed(Path(sys.executable).resolve().read_bytes())
    assert loader is not None
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / Path(loader).name).symlink_to(Path(loader).resolve())
    with pytest.raises(ImageError, match="in none of the packages"):
        libraries_of(Path(sys.executable).resolve(), tmp_path)
