"""Keep the chain of a running machine's overlays short: the frozen ones are streamed into the newest frozen one, while the guest runs.

`block-stream` copies what lies below into the node above and then lets go of the files below; each of these files stays as it is until
it is let go. So at every moment the chain reads the same, whatever died and wherever the copying stopped, and a copy that was broken off is
continued by the next one. (`block-commit`, the other direction, writes into files below: never used.) The saved disk of the host cache
and the guest image are the job's base: not read for what only they hold, never written, never left out.

The kept file has the number of the newest one in it: what was covered by a checkpoint up to a number still is.
"""

import logging
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from workers import crash
from workers.machine.qemu.disk import file_name_of, live_overlays, node_name, number_of
from workers.machine.qemu.monitor import Monitor, MonitorError

MAX_OVERLAYS = 8  # in the chain after a save: the live one and the frozen ones
JOB = "flatten"
FLATTEN_SECONDS = 300.0
CANCEL_SECONDS = 30.0
POLL_SECONDS = 0.02
KEEP_FREE_BYTES = 256 * 1024 * 1024  # for what the guest writes meanwhile

log = logging.getLogger(__name__)


def keep_chain_short(monitor: Monitor, runtime: Path, base_node: str) -> None:
    """Prerequisite: nobody reads the overlays; the guest may run and write. `base_node`: what the oldest overlay lies over.

    On success the chain is shorter than MAX_OVERLAYS and no job runs. On failure (no room, the job's own error, no end in time) the
    chain is as it was or shorter, no job runs, and the log says why: a long chain costs speed, so it fails no save. Raises MonitorError
    if a job cannot be ended, MonitorSilent.
    """
    if _job(monitor) is not None:  # of a capture whose worker died
        _finish(monitor, runtime)
    frozen = live_overlays(monitor, runtime)[:-1]
    if len(frozen) + 1 < MAX_OVERLAYS or not _has_room(runtime, frozen):
        return
    top = node_name(number_of(frozen[-1]))
    wanted = {"job-id": JOB, "device": top, "base-node": base_node, "auto-dismiss": False}
    try:
        monitor.call("block-stream", {**wanted, "backing-file": _name_below(monitor, frozen[0])})
    except MonitorError as error:
        log.warning("the overlays were not flattened", extra={"runtime": runtime.name, "reason": str(error)})
        return
    crash.reach("flattening")
    _finish(monitor, runtime)


def _has_room(runtime: Path, frozen: list[Path]) -> bool:
    """By the files' lengths: QEMU before 8.1 copies whole clusters, of which a small write fills a part."""
    wanted = sum(path.stat().st_size for path in frozen[:-1]) + KEEP_FREE_BYTES
    free = shutil.disk_usage(runtime).free
    if free < wanted:
        log.warning("no room to flatten the overlays", extra={"runtime": runtime.name, "free": free, "wanted": wanted})
    return free >= wanted


def _name_below(monitor: Monitor, oldest: Path) -> str:
    """The file that the oldest overlay lies over, as a plain name for the kept one's header: QEMU would write its own idea of it."""
    nodes = monitor.call("query-named-block-nodes", {"flat": True})
    for node in nodes if isinstance(nodes, list) else []:
        if node.get("node-name") == node_name(number_of(oldest)):
            return file_name_of({"filename": str(node["image"].get("backing-filename", ""))})
    raise MonitorError(f"QEMU has no node {node_name(number_of(oldest))}")


def _finish(monitor: Monitor, runtime: Path) -> None:
    """Wait until the job has ended, or end it; then let QEMU forget it."""
    ended = _wait(monitor, FLATTEN_SECONDS)
    if ended is None:
        try:
            monitor.call("job-cancel", {"id": JOB})
        except MonitorError:
            pass  # it has just ended by itself
        ended = _wait(monitor, CANCEL_SECONDS)
        if ended is None:
            raise MonitorError("the flattening of the overlays neither ends nor can be cancelled")
    monitor.call("job-dismiss", {"id": JOB})
    if "error" in ended:
        log.warning("the overlays were not flattened", extra={"runtime": runtime.name, "reason": ended["error"]})


def _wait(monitor: Monitor, seconds: float) -> Mapping[str, object] | None:
    """The job as it ended, or None if it has not in that time."""
    deadline = time.monotonic() + seconds
    while True:
        job = _job(monitor)
        if job is None:
            raise MonitorError("the flattening of the overlays was forgotten by QEMU")
        if job["status"] == "concluded":
            return job
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)


def _job(monitor: Monitor) -> Mapping[str, object] | None:
    jobs = monitor.call("query-jobs")
    return next((job for job in jobs if job["id"] == JOB), None) if isinstance(jobs, list) else None
