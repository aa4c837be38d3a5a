"""What the machines of a fork cost in memory, as the kernel accounts for it."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.gates.forks import record_of
from tests.gates.room import Subject

MIB = 1024  # of KiB, the unit of smaps
_HEADER = re.compile(r"[0-9a-f]+-[0-9a-f]+ ")


@dataclass(frozen=True)
class MachineMemory:
    """MiB. `image_mib`: what the sparse file holds that the guest's memory was mapped from. `guest_pss`: the guest's memory, a page that n
    processes share counted as a n-th. `guest_written`: pages of it that are the process's own. `hypervisor`: everything else of the
    process that is private.
    """

    image_inode: int
    image_mib: float
    guest_pss: float
    guest_written: float
    hypervisor: float


def machine_memory(subject: Subject) -> MachineMemory:
    """Raises ValueError for a process that does not map the image that its machine was started from."""
    record, (pid,) = record_of(subject), subject.pids()
    guest, other = [0, 0], 0
    in_guest = found = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if _HEADER.match(line):
            in_guest = line.split()[4] == str(record["memory_inode"])
            found = found or in_guest
            continue
        name, value = line.split(":", 1)
        if in_guest and name in ("Pss", "Anonymous"):
            guest[name == "Anonymous"] += _kib(value)
        elif not in_guest and name in ("Private_Dirty", "Private_Clean"):
            other += _kib(value)
    if not found:
        raise ValueError(f"process {pid} does not map {record['memory']}")
    image = Path(record["memory"]).stat().st_blocks * 512 / (MIB << 10)
    return MachineMemory(record["memory_inode"], image, guest[0] / MIB, guest[1] / MIB, other / MIB)


def _kib(value: str) -> int:
    return int(value.split(maxsplit=1)[0])
