"""The fake's guest: memory that changes while it runs, and commands that are host processes in a private directory.

Standard library only: it runs inside the fake hypervisor's process, without the project's packages.
"""

import base64
import ctypes
import json
import mmap
import os
import select
import signal
import struct
import subprocess
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

HEAP_BYTES = 1024 * 1024  # the part of memory that this guest uses
TICKS = struct.Struct("<Q")  # at the start of the heap: how often it has run
IDENTITY = slice(TICKS.size, TICKS.size + 16)  # random, from its first tick on: as with real machines, no page of two boots is the same
OUTPUT_AT = 4096  # what commands printed lies from here on
TICK_SECONDS = 0.005
FILES_LIMIT = 16 * 1024 * 1024
PR_SET_PDEATHSIG = 1
MISSING_PROGRAM = 127
TIMED_OUT = 124
ENDED = 128 + signal.SIGTERM


class Guest:
    """`directory` is its filesystem; it belongs to the device state, memory does not."""

    def __init__(self, memory: mmap.mmap, directory: Path):
        self._memory, self._directory = memory, directory
        self._heap_bytes = min(HEAP_BYTES, len(memory))
        self._lock = threading.Lock()  # held: the processors stand still for the holder
        self._running = threading.Event()
        self._groups: set[int] = set()
        threading.Thread(target=self._tick_for_ever, daemon=True).start()

    @property
    def running(self) -> bool:
        return self._running.is_set()

    def run(self) -> None:
        self._running.set()
        self._signal_all(signal.SIGCONT)

    def stop(self) -> None:
        """On return nothing in memory or in the directory changes any more."""
        self._running.clear()
        with self._lock:
            self._signal_all(signal.SIGSTOP)

    def ticks(self) -> int:
        return int(TICKS.unpack_from(self._memory, 0)[0])

    def save(self, path: Path) -> None:
        """Device state: the regular files of the directory, and a checksum of the memory that belongs to them."""
        state = {"ticks": self.ticks(), "heap": self._checksum(), "files": _pack(self._directory)}
        path.write_bytes(json.dumps(state).encode())

    def load(self, path: Path) -> None:
        """Raises ValueError if the memory is of another moment than the state: a real machine would run on, and be broken."""
        state = json.loads(path.read_bytes())
        if (state["ticks"], state["heap"]) != (self.ticks(), self._checksum()):
            raise ValueError("memory and device state are not of the same moment")
        _unpack(state["files"], self._directory)

    def execute(self, argv: Sequence[str], seconds: float, limit: int) -> tuple[int, bytes, bytes]:
        """(exit code, up to limit + 1 bytes of each stream): 128 + n for signal n, 124 at the time limit. Waits while the guest is
        stopped.
        """
        self._running.wait()
        try:
            child = subprocess.Popen(
                argv, cwd=self._directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  a test's process: one prctl, no lock
            )  # fmt: skip
        except OSError as error:
            return MISSING_PROGRAM, b"", f"{argv[0]}: {error.strerror}\n".encode()
        self._groups.add(child.pid)
        kept = [_Keeper(stream, limit + 1) for stream in (child.stdout, child.stderr) if stream is not None]
        code = self._wait(child, seconds)
        self._groups.discard(child.pid)
        out, err = (keeper.result() for keeper in kept)
        self._remember(out)
        return code, out, err

    def end_commands(self) -> None:
        self._signal_all(signal.SIGTERM)

    def _wait(self, child: subprocess.Popen[bytes], seconds: float) -> int:
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return TIMED_OUT
        return 128 - code if code < 0 else code

    def _tick_for_ever(self) -> None:
        while True:
            self._running.wait()
            with self._lock:
                if self.running:
                    if not self.ticks():
                        self._memory[IDENTITY] = os.urandom(16)
                    TICKS.pack_into(self._memory, 0, self.ticks() + 1)
            time.sleep(TICK_SECONDS)

    def _remember(self, printed: bytes) -> None:
        self._running.wait()
        with self._lock:
            room = printed[: self._heap_bytes - OUTPUT_AT]
            self._memory[OUTPUT_AT : OUTPUT_AT + len(room)] = room

    def _checksum(self) -> int:
        return zlib.crc32(self._memory[: self._heap_bytes])

    def _signal_all(self, number: signal.Signals) -> None:
        for group in list(self._groups):
            try:
                os.killpg(group, number)
            except ProcessLookupError:
                pass


class _Keeper:
    """Keeps the start of a stream and reads the rest for nothing, so that endless output neither blocks nor fills memory."""

    def __init__(self, stream: IO[bytes], limit: int):
        self._stream, self._limit, self._kept = stream, limit, bytearray()
        self._lock, self._ended = threading.Lock(), False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def result(self) -> bytes:
        """All that was printed when the command ended, however late the thread is."""
        self._thread.join(0.3)  # a process left in the background may hold the stream open
        while len(self._kept) < self._limit and self._take():
            pass
        return bytes(self._kept)

    def _read(self) -> None:
        while not self._ended:
            select.select([self._stream], [], [])
            self._take()

    def _take(self) -> bool:
        """A piece, if one is there; whether there was one."""
        with self._lock:
            if self._ended or not select.select([self._stream], [], [], 0)[0]:
                return False
            data = os.read(self._stream.fileno(), 65536)
            self._ended = not data
            self._kept += data[: self._limit - len(self._kept)]
            return not self._ended


def _pack(directory: Path) -> dict[str, list[object]]:
    """{relative path: [mode, base64 of the bytes]}"""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and not path.is_symlink()]
    if sum(path.stat().st_size for path in files) > FILES_LIMIT:
        raise ValueError(f"the guest's files are larger than {FILES_LIMIT} bytes")
    return {str(path.relative_to(directory)): [path.stat().st_mode & 0o777, _text(path)] for path in files}


def _text(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _unpack(files: dict[str, list[object]], directory: Path) -> None:
    for name, (mode, data) in files.items():
        path = directory / name
        if ".." in path.parts or not path.is_relative_to(directory):
            raise ValueError("a saved file lies outside the guest")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(str(data)))
        path.chmod(int(str(mode)))


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
