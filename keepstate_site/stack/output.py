"""A child's output: one log file of bounded size, the newest lines in memory, and an optional echo with its name in front."""

import sys
from collections import deque
from pathlib import Path

FILE_BYTES = 4 * 1024 * 1024
OLD_FILES = 2
LINE_BYTES = 16 * 1024
TAIL_LINES = 20


class Log:
    def __init__(self, name: str, directory: Path, *, echo: bool, file_bytes: int = FILE_BYTES):
        self.name = name
        self.path = directory / f"{name}.log"
        self.echo = echo
        self.file_bytes = file_bytes
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._partial = b""
        self._file = self.path.open("ab", buffering=0)

    def write(self, chunk: bytes) -> None:
        """A full disk loses log lines, never the stack."""
        try:
            if self._file.tell() + len(chunk) > self.file_bytes:
                self._rotate()
            self._file.write(chunk)
        except OSError as error:
            self.tail.append(f"(log not written: {error.strerror})")
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        if len(self._partial) > LINE_BYTES or not chunk:
            lines.append(self._partial)
            self._partial = b""
        for line in lines:
            self._show(line[:LINE_BYTES].decode(errors="replace").rstrip())

    def _show(self, line: str) -> None:
        if line:
            self.tail.append(line)
            if self.echo:
                sys.stdout.write(f"{self.name:<9}| {line}\n")
                sys.stdout.flush()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(OLD_FILES, 0, -1):
            older = self.path if number == 1 else self.path.with_suffix(f".log.{number - 1}")
            if older.exists():
                older.replace(self.path.with_suffix(f".log.{number}"))
        self._file = self.path.open("ab", buffering=0)
