"""The machine that resume and pause are measured on: the demo's agent at work in a guest of 1 GiB.

With another image (`--image tiny`, `--image tiny-arm64`) a shell that writes and counts takes the agent's place, for these have no Python;
there is no budget for them.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keepstate_site.demo.agent import PROGRAM, STATUS
from tests.gates.room import Room, Subject, room
from tests.support.waiting import until

AGENT_IMAGE = "debian-python"
IMAGES = (AGENT_IMAGE, "tiny", "tiny-arm64")
MEMORY_MIB = 1024
SMALL_MEMORY_MIB = 256
SHELL_AGENT = (
    "n=0; while :; do n=$((n+1)); head -c 200000 /dev/urandom > /tmp/work; "
    f'echo "$n 0 0" > {STATUS}.new; mv {STATUS}.new {STATUS}; usleep 50000; done'
)


def described(image: str) -> str:
    """The machine and its work, for a bench's method."""
    if image == AGENT_IMAGE:
        return f"{image}, {MEMORY_MIB} MiB, the demo's agent at work"
    return f"{image}, {SMALL_MEMORY_MIB} MiB, a shell that writes 200 kB twenty times a second at most"


def budget(image: str, seconds: float) -> float | None:
    return seconds if image == AGENT_IMAGE else None


@contextmanager
def agent_machine(image: str = AGENT_IMAGE) -> Iterator[tuple[Room, Subject]]:
    """A stack of its own, a machine, and the agent counting in it."""
    shell, program, memory = 'python3 -c "$0" >/dev/null 2>&1 </dev/null &', PROGRAM, MEMORY_MIB
    if image != AGENT_IMAGE:
        shell, program, memory = '/bin/sh -c "$0" >/dev/null 2>&1 </dev/null &', SHELL_AGENT, SMALL_MEMORY_MIB
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as scratch, room(Path(scratch)) as opened:
        created = opened.client.do("POST", "/api/sessions", {"Image": image, "Memory": memory})
        subject = Subject(opened, created["id"])
        opened.client.do("POST", f"/api/sessions/{subject.id}/exec", {"Argv": ["/bin/sh", "-c", shell, program], "Timeout": 20})
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
