"""How machines are kept apart from the host and from each other: a user id, a root and limits of their own, where the worker may give them.

A worker that is not root cannot: its machines run as itself, behind QEMU's own sandbox alone. `./keepstate doctor` tells which it is.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from workers.machine.process import mounts, uids
from workers.machine.process.threads import apart

T = TypeVar("T")
log = logging.getLogger(__name__)

#: chown, dac_override, setgid, setuid, sys_ptrace (to read the memory of another user's process), sys_admin (to mount).
CAPABILITIES = (0, 1, 6, 7, 19, 21)
FIRST_UID, UIDS = 1_900_000_000, 65_536
MOUNT_POINT, ID_DIRECTORY = "root", "uids"


@dataclass(frozen=True)
class Isolation:
    """`mode`: auto (where possible), required (start nothing otherwise), off. `directory` is the same for all workers of a host."""

    mode: str = "auto"
    first_uid: int = FIRST_UID
    uid_count: int = UIDS
    directory: Path = Path("/run/keepstate")
    cgroup: Path | None = None

    @property
    def mount_point(self) -> Path:
        return self.directory / MOUNT_POINT

    def wanted(self) -> bool:
        """Whether machines are isolated here. Raises RuntimeError, saying why not, where that is required."""
        if self.mode == "off":
            return False
        obstacle = _obstacle(self)
        if obstacle is not None and self.mode == "required":
            raise RuntimeError(f"machines cannot be isolated here: {obstacle}")
        return obstacle is None

    def take_id(self) -> uids.TakenId:
        return uids.take(self.first_uid, self.uid_count, self.directory / ID_DIRECTORY)


AUTO = Isolation()


@lru_cache(maxsize=8)
def _obstacle(isolation: Isolation) -> str | None:
    """What keeps this process from isolating a machine; None if nothing does. Tried, not guessed, once in a worker's life."""
    if os.geteuid() != 0:
        return _told("the worker is not root; its machines run as its own user")
    if not has_capabilities():
        return _told("the worker lacks capabilities of root; its machines run as its own user")
    try:
        isolation.mount_point.mkdir(parents=True, exist_ok=True, mode=0o700)
        within(mounts.View(devices=(Path(os.devnull),)), isolation.mount_point, lambda: None)
    except OSError as error:
        return _told(f"a root of its own cannot be made for a machine ({error}); machines run as root")
    return None


def _told(obstacle: str) -> str:
    log.warning("machines are not isolated: %s", obstacle)
    return obstacle


def has_capabilities() -> bool:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    held = int(line.split()[1], 16)
    return all(held >> number & 1 for number in CAPABILITIES)


def within(view: mounts.View, mount_point: Path, act: Callable[[], T]) -> T:
    """What `act` returns in a thread whose root is the view, as is that of the processes it starts. Raises what it raises, OSError."""

    def enter_and_act() -> T:
        mounts.enter(view, mount_point)
        return act()

    return apart(enter_and_act)
