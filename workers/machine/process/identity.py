"""Which process a process id names: pid, start time and boot id together are never reused."""

import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class ProcessIdentity:
    pid: int
    start_time: int  # clock ticks since the host's boot
    boot_id: str

    def as_record(self) -> dict[str, object]:
        return asdict(self)


@cache
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this id now, or None."""
    started = start_time(pid)
    return None if started is None else ProcessIdentity(pid, started, boot_id())


def from_record(record: object) -> ProcessIdentity | None:
    """Read back `as_record`; None for anything else."""
    if not isinstance(record, dict):
        return None
    pid, started, boot = record.get("pid"), record.get("start_time"), record.get("boot_id")
    if isinstance(pid, int) and pid > 0 and isinstance(started, int) and isinstance(boot, str):
        return ProcessIdentity(pid, started, boot)
    return None


def is_same(process: ProcessIdentity) -> bool:
    """Whether the process id still names the process that was recorded (a zombie of it counts)."""
    return process.boot_id == boot_id() and start_time(process.pid) == process.start_time


def start_time(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read(4096)
    except (FileNotFoundError, ProcessLookupError):
        return None
    # the command name is in parentheses and may itself hold spaces and parentheses; start time is field 22
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


def pid_from_file(path: Path) -> int | None:
    try:
        with open(path, "rb") as file:
            pid = int(file.read(32))
    except (OSError, ValueError):
        return None
    return pid if pid > 1 and pid != os.getpid() else None
