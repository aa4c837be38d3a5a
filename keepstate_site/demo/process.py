"""The machine's process as the host sees it: the demo ends it without asking anybody."""

import os
import signal
import time
from pathlib import Path

from keepstate_site.demo.report import ClaimFailed


def kill_machine(root: Path, session: str) -> int:
    """SIGKILL, and wait until it is gone. Returns which process it was. Raises ClaimFailed as `machine_pid`."""
    pid = machine_pid(root, session)
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists() and not _is_zombie(pid):
        time.sleep(0.005)
    return pid


def machine_pid(root: Path, session: str) -> int:
    """The process of the session's machine: the one QEMU whose working directory is its runtime directory.

    Raises ClaimFailed if there is not exactly one.
    """
    found = machine_pids(root, session)
    if len(found) != 1:
        raise ClaimFailed(f"exactly one machine runs for the session, seen {found}")
    return found[0]


def machine_pids(root: Path, session: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            directory = Path(os.readlink(process / "cwd"))
        except OSError:
            continue
        if directory.name.startswith(session + ".") and directory.is_relative_to(root.resolve()):
            found.append(int(process.name))
    return found


def _is_zombie(pid: int) -> bool:
    """Its first thread is one while others still hold the process's files: all of them must have ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return True
