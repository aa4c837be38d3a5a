"""The machine that resume and pause are measured on: the demo's agent at work in a guest of 1 GiB."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keepstate_site.demo.agent import PROGRAM, STATUS
from tests.gates.room import Room, Subject, room
from tests.support.waiting import until

MEMORY_MIB = 1024


@contextmanager
def agent_machine() -> Iterator[tuple[Room, Subject]]:
    """A stack of its own, a machine, and the agent counting in it."""
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as scratch, room(Path(scratch)) as opened:
        created = opened.client.do("POST", "/api/sessions", {"Image": "debian-python", "Memory": MEMORY_MIB})
        subject = Subject(opened, created["id"])
        shell = 'python3 -c "$0" >/dev/null 2>&1 </dev/null &'
        opened.client.do("POST", f"/api/sessions/{subject.id}/exec", {"Argv": ["/bin/sh", "-c", shell, PROGRAM], "Timeout": 20})
        report_after(subject, 0)
        yield opened, subject


def report_after(subject: Subject, step: int) -> int:
    """Wait until the agent has reported a later step than this one; returns that step."""
    until(lambda: _step(subject) > step, 60, "the agent reports")
    return _step(subject)


def _step(subject: Subject) -> int:
    words = subject.exec(f"cat {STATUS}")["stdout"].split()
    return int(words[0]) if len(words) == 3 else 0


def peak_worker_mib(opened: Room) -> float:
    """The largest resident size that any process of the vm worker has had, in MiB."""
    return max(_peak_kib(pid) for pid in opened.worker_pids("vm")) / 1024


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
