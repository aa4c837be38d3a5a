"""Keep the chain of a running machine's overlays short: the frozen ones are committed into the oldest of them, while the guest runs.

`block-commit` copies what the newer ones hold into the oldest. What it writes there lies under them until it ends, when QEMU takes them out
of the chain in one step: so the disk reads the same at every moment, whatever died and wherever the copying stopped, and a copy that was
broken off is simply begun anew. The saved disk of the host cache and the guest image lie below and are neither read nor written.

The other direction, `block-stream`, ends QEMU 7.2: its copy-on-read rounds to whole clusters and asserts that what it finds there is of one
kind, which overlays with subclusters need not be (`bdrv_co_do_copy_on_readv: Assertion skip_bytes < pnum`).
"""

import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from workers import crash
from workers.machine.qemu.disk import live_overlays, node_name, number_of, remove_unused_overlays
from workers.machine.qemu.extents import allocated_extents
from workers.machine.qemu.monitor import Monitor, MonitorError

JOB = "flatten"
BYTES_PER_SECOND = 256 * 1024 * 1024  # the host's disk is the guests' too
SOON_SECONDS = 5.0  # what takes longer goes on without us
WAIT_SECONDS = 60.0  # of a capture, for one that still runs
CANCEL_SECONDS = 15.0
POLL_SECONDS = 0.01
KEEP_FREE_BYTES = 256 * 1024 * 1024  # for what the guests write meanwhile

log = logging.getLogger(__name__)


def flatten(monitor: Monitor, runtime: Path, overlays: Sequence[Path]) -> bool:
    """The contract's `flatten`. Raises MonitorError, MonitorSilent, MachineError.

    A capture keeps this monitor to itself until it has switched disks, and QEMU commits below a root node only: so the job begins either
    before another capture, which waits for its end, or not at all, and nothing is written to a file that another save reads.
    """
    live = live_overlays(monitor, runtime)
    if len(overlays) < 2 or [path.name for path in live[:-1]] != [path.name for path in overlays] or not _has_room(runtime, overlays):
        return False
    if not _begin(monitor, runtime, live):
        return False
    crash.reach("flattening")
    if not _has_ended(monitor, SOON_SECONDS) or not _forget(monitor, runtime):
        return False
    remove_unused_overlays(monitor, runtime, live_overlays(monitor, runtime))
    return True


def settle(monitor: Monitor, runtime: Path) -> None:
    """On return no flattening runs, of whomever; the chain is short, or as it was.

    Raises MonitorError if one neither ends nor can be broken off, MonitorSilent.
    """
    if _job(monitor) is None:
        return
    if not _has_ended(monitor, WAIT_SECONDS):
        try:
            monitor.call("job-cancel", {"id": JOB})
        except MonitorError:
            pass  # it has just ended by itself
        if not _has_ended(monitor, CANCEL_SECONDS):
            raise MonitorError("the flattening of the overlays neither ends nor can be broken off")
    _forget(monitor, runtime)


def _has_room(runtime: Path, overlays: Sequence[Path]) -> bool:
    """A range of zeros takes none in an overlay, and its length in the one that it is copied to."""
    wanted = sum(extent.length for overlay in overlays[1:] for extent in allocated_extents(overlay)) + KEEP_FREE_BYTES
    free = shutil.disk_usage(runtime).free
    if free < wanted:
        log.warning("no room to flatten the overlays", extra={"runtime": runtime.name, "free": free, "wanted": wanted})
    return free >= wanted


def _begin(monitor: Monitor, runtime: Path, live: Sequence[Path]) -> bool:
    """The name of the oldest is for the header of the live one, where QEMU would else write down all its options."""
    oldest, newest, top = live[0], live[-2], live[-1]
    job: dict[str, object] = {"job-id": JOB, "auto-dismiss": False, "speed": BYTES_PER_SECOND, "backing-file": oldest.name}
    nodes = {"device": top, "top-node": newest, "base-node": oldest}
    try:
        monitor.call("block-commit", {**job, **{role: node_name(number_of(path)) for role, path in nodes.items()}})
    except MonitorError as error:
        log.warning("the overlays were not flattened", extra={"runtime": runtime.name, "reason": str(error)})
        return False
    return True


def _has_ended(monitor: Monitor, seconds: float) -> bool:
    """Whether the job ends in that time, well or not."""
    deadline = time.monotonic() + seconds
    while True:
        job = _job(monitor)
        if job is None:
            raise MonitorError("the flattening of the overlays was forgotten by QEMU")
        if job["status"] == "concluded":
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)


def _forget(monitor: Monitor, runtime: Path) -> bool:
    """Let QEMU forget a job that has ended. Whether it did what it should."""
    error = (_job(monitor) or {}).get("error")
    monitor.call("job-dismiss", {"id": JOB})
    if error is not None:
        log.warning("the overlays were not flattened", extra={"runtime": runtime.name, "reason": error})
    return error is None


def _job(monitor: Monitor) -> Mapping[str, object] | None:
    jobs = monitor.call("query-jobs")
    return next((job for job in jobs if job["id"] == JOB), None) if isinstance(jobs, list) else None
