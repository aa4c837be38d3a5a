"""The fake's guest, alone over a memory of its own."""

import mmap
from pathlib import Path

import pytest

from tests.support.waiting import until
from workers.machine.fake import guest as guests
from workers.machine.fake.guest import HEAP_BYTES, TICKS, Guest


def heap_without_ticks(directory: Path) -> bytes:
    directory.mkdir()
    memory = mmap.mmap(-1, HEAP_BYTES)
    guest = Guest(memory, directory)
    guest.run()
    until(lambda: guest.ticks() > 0, 10, "the guest runs")
    guest.stop()
    return memory[TICKS.size :]


def test_no_two_boots_write_the_same_page_however_long_they_ran(tmp_path: Path) -> None:
    """A page that is the same would be stored once for both: a test that counts what sessions share would then depend on the clock."""
    assert heap_without_ticks(tmp_path / "one") != heap_without_ticks(tmp_path / "other")


def test_what_a_command_printed_is_told_whole_however_late_its_reader_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests._Keeper, "_read", lambda _: None)
    guest = Guest(mmap.mmap(-1, HEAP_BYTES), tmp_path)
    guest.run()
    assert guest.execute(["sh", "-c", "echo out; echo err >&2"], 30, 100) == (0, b"out\n", b"err\n")
    assert guest.execute(["sh", "-c", "printf 123456789; sleep 1 &"], 30, 5) == (0, b"123456", b"")
    guest.stop()
