"""The host's end of a terminal, on real named pipes; the test holds the machine's ends as QEMU does."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.machine.driver import MachineError
from workers.machine.qemu import fifo, terminal
from workers.machine.qemu.terminal import TerminalLine


class Guest:
    def __init__(self, runtime: Path):
        fifo.make(runtime, "terminal")
        self.output, self.input = (os.open(runtime / f"terminal.{way}", os.O_RDWR | os.O_NONBLOCK) for way in ("out", "in"))

    def print(self, data: bytes) -> int:
        """As QEMU passes a console's bytes on: 16 at a time, and what has no room is gone. How many were taken."""
        taken = 0
        for start in range(0, len(data), 16):
            try:
                taken += os.write(self.output, data[start : start + 16])
            except BlockingIOError:
                break
        return taken

    def end(self) -> None:
        os.close(self.output)
        os.close(self.input)


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


@pytest.fixture
def line(tmp_path: Path, guest: Guest) -> Iterator[TerminalLine]:
    opened = TerminalLine(tmp_path)
    yield opened
    opened.close()


def test_a_console_that_prints_a_few_bytes_at_a_time_fills_all_the_room_and_nothing_is_told_as_lost(guest, line):
    printed = bytes(range(256)) * (3 * 1024)
    assert guest.print(printed) == len(printed)
    assert (line.read(), line.lost()) == (printed, False)


@pytest.mark.parametrize("begun", [0, 4000])
def test_output_without_room_is_told_as_lost_once_also_where_a_page_was_half_read(guest, line, begun):
    guest.print(b"y" * begun)
    os.read(guest.output, begun)
    taken = guest.print(b"z" * (2 * terminal.ROOM_BYTES))
    assert taken < 2 * terminal.ROOM_BYTES
    assert line.read() == b"z" * taken
    assert [line.lost(), line.lost()] == [True, False]


def test_input_that_is_not_taken_is_counted_to_the_byte_and_leaves_nothing_on_its_way(guest, line, monkeypatch):
    monkeypatch.setattr(terminal, "TAKEN_SECONDS", 0.01)
    assert line.type(b"x" * 1500) == 1500
    with pytest.raises(BlockingIOError):
        os.read(guest.input, 1)


def test_a_reader_that_waits_is_told_that_the_machine_ended_or_that_the_line_was_closed(guest, line, tmp_path):
    other, read = TerminalLine(tmp_path), list[bytes]()
    waiting = threading.Thread(target=lambda: read.append(other.read()))
    waiting.start()
    other.close()
    waiting.join(10)
    assert read == [b""]
    guest.end()
    assert line.read() == b""


def test_typing_to_a_machine_that_has_ended_or_on_a_closed_line_says_so(guest, line, tmp_path):
    guest.end()
    with pytest.raises(MachineError, match="closed"):
        line.type(b"x")
    with pytest.raises(MachineError) as gone:
        TerminalLine(tmp_path)
    assert gone.value.code == "machine_dead"


def test_a_name_that_is_no_pipe_is_not_opened(tmp_path):
    (tmp_path / "terminal.out").write_bytes(b"a file")
    with pytest.raises(OSError, match="no named pipe"):
        fifo.opened(tmp_path, "terminal.out", os.O_RDONLY)
    (tmp_path / "terminal.in").symlink_to("/dev/null")
    with pytest.raises(OSError, match="symbolic"):
        fifo.opened(tmp_path, "terminal.in", os.O_WRONLY)
