"""Run a program and watch it: seconds, processor seconds, and the largest resident memory of its whole process tree."""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.01
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Watched:
    seconds: float
    cpu_seconds: float  # of all its processes: what a load beside it does not change
    peak_mib: float
    output: str


def watch(argv: Sequence[str], *, directory: Path, environment: Mapping[str, str], cores: int) -> Watched:
    """Raises RuntimeError with what it said if it fails. Memory is looked at every 10 ms and, of the program itself, known exactly."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    began = time.perf_counter()
    process = subprocess.Popen(
        argv,
        cwd=directory,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    peak = 0
    ended = threading.Event()

    def look() -> None:
        nonlocal peak
        while not ended.wait(_EVERY):
            peak = max(peak, sum(map(_resident, _tree(process.pid))))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        assert process.stdout is not None
        output = process.stdout.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        ended.set()
        watcher.join()
    if process.returncode != 0:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}: {output[-2000:]}")
    return Watched(seconds, usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss << 10) / (1 << 20), output)


def _tree(pid: int) -> list[int]:
    try:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(one for child in below for one in _tree(int(child)))]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
