"""What a stack holds at a moment: resident memory and open descriptors of each of its processes, and its files."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

KIB = 1024


@dataclass(frozen=True)
class Footprint:
    """`resident` in KiB and `descriptors` by process id; `names` tells what each is; `scratch` in bytes by directory below the stack's."""

    names: Mapping[int, str]
    resident: Mapping[int, int]
    descriptors: Mapping[int, int]
    scratch: Mapping[str, int]


def footprint(root: Path) -> Footprint:
    names, resident, descriptors = {}, {}, {}
    for pid in processes_below(root):
        try:
            names[pid] = _name(pid)
            resident[pid] = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // KIB
            descriptors[pid] = len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, IndexError):
            continue  # it has just ended
    return Footprint(names, resident, descriptors, scratch_below(root))


def processes_below(root: Path) -> list[int]:
    """Every process that was started for this stack, its machines and their helpers included: known by environment or command line."""
    wanted = str(root).encode()
    found = []
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        try:
            said = Path(f"/proc/{pid}/cmdline").read_bytes() + b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
            where = os.readlink(f"/proc/{pid}/cwd").encode()
        except OSError:
            continue
        if pid != os.getpid() and (wanted in said or where.startswith(wanted)):
            found.append(pid)
    return found


def scratch_below(root: Path) -> dict[str, int]:
    """Allocated bytes of what is not a checkpoint: all but the store and the database, by the directory's name."""
    found: dict[str, int] = {}
    for host in (root / "host").glob("*"):
        for part in host.iterdir():
            found[part.name] = found.get(part.name, 0) + _allocated(part)
    return found


def _allocated(path: Path) -> int:
    total = 0
    for directory, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
            except OSError:
                continue
    return total if path.is_dir() else path.lstat().st_blocks * 512


def _name(pid: int) -> str:
    words = [word.decode(errors="replace") for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") if word]
    if not words:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    told = [Path(words[0]).name, *[word for word in words[1:6] if not word.startswith(("-", "/"))]]
    return " ".join(told)[:60]
