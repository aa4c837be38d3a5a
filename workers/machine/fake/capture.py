"""Save one moment of a fake machine: the same steps and the same reading of its memory as with the real one, without a disk."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workers.machine.driver import Capture, MachineError
from workers.machine.fake.faults import FakeFaults
from workers.machine.fake.monitor import NoReply, call
from workers.machine.memory.copy import PageCopier
from workers.machine.memory.mapping import find_mapping
from workers.machine.memory.pagemap import written_pages

PAGES_NAME, DEVICES_NAME = "pages", "devices"


def capture(
    runtime: Path, pid: int, memory: Path, inode: int, memory_bytes: int, staging: Path, continue_after: bool, faults: FakeFaults,
    at_stop: Callable[[], None],
) -> Capture:  # fmt: skip
    """The contract's `capture`."""
    if not staging.is_dir() or any(staging.iterdir()):
        raise MachineError("capture_failed", f"{staging} is not an empty directory. Nothing was saved and the machine was not stopped.")
    was_running = bool(call(runtime, "status")["running"])
    parts: dict[str, float] = {}
    pages: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def copy() -> None:
        nonlocal pages
        pages = _copy(pid, inode, memory_bytes, staging / PAGES_NAME)

    at_stop()
    try:
        _step(parts, "stop", faults, lambda: call(runtime, "stop"))
        _step(parts, "devices", faults, lambda: call(runtime, "save", path=str((staging / DEVICES_NAME).resolve())))
        _step(parts, "disk", faults, lambda: None)
        _step(parts, "pages", faults, copy)
    except (MachineError, NoReply, OSError) as error:
        for name in (PAGES_NAME, DEVICES_NAME):
            (staging / name).unlink(missing_ok=True)
        if was_running:
            call(runtime, "run")
        if isinstance(error, MachineError) and error.code in ("no_space", "machine_dead"):
            raise
        raise MachineError("capture_failed", f"Nothing was saved and the machine goes on as before: {error}") from error
    _step(parts, "continue", FakeFaults(), lambda: call(runtime, "run") if continue_after else None)
    return Capture(pages, staging / PAGES_NAME, memory, None, (), staging / DEVICES_NAME, sum(parts.values()), parts)


def _step(parts: dict[str, float], name: str, faults: FakeFaults, work: Callable[[], object]) -> None:
    began = time.perf_counter()
    if faults.capture_fails_at == name:
        raise MachineError("capture_failed", f"fault asked for at {name}")
    if faults.no_space_at == name:
        raise MachineError("no_space", f"fault asked for at {name}: the disk is full")
    work()
    parts[name] = time.perf_counter() - began


def _copy(pid: int, inode: int, memory_bytes: int, path: Path) -> npt.NDArray[np.int64]:
    segments = find_mapping(pid, inode, memory_bytes)
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap, open(path, "xb", buffering=0) as out:
        pages = written_pages(pagemap.fileno(), segments)
        PageCopier().copy(pid, segments, pages, out.fileno())
    return pages
