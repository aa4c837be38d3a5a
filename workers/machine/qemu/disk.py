"""The live disk: qcow2 overlays over a read-only image. The format of every file is stated, never probed: a guest may write any header.

An overlay has 128 KiB clusters with 4 KiB subclusters (extended L2 entries): a small write allocates 4 KiB and its tables stay small.
Overlays are not flushed (`no-flush`): they matter only while the process lives, and it does not outlive the host's memory.
What must outlive the host is in a checkpoint.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.machine.driver import GuestImage, MachineError
from workers.machine.process.uids import give
from workers.machine.qemu.argv import DISK_DEVICE, DiskChain
from workers.machine.qemu.binary import find_program, run_bounded
from workers.machine.qemu.monitor import Monitor, MonitorError

CREATE_SECONDS = 20.0
OVERLAY_OPTIONS = "extended_l2=on,cluster_size=128k"
OVERLAY_NAME = re.compile(r"^overlay-(\d+)\.qcow2$")


def node_name(number: int) -> str:
    return f"overlay-{number}"


def overlay_name(number: int) -> str:
    return f"overlay-{number}.qcow2"


def number_of(overlay: Path) -> int:
    """Prerequisite: the file has an overlay's name."""
    match = OVERLAY_NAME.match(overlay.name)
    if match is None:
        raise ValueError(f"{overlay.name} is no overlay")
    return int(match[1])


def create_overlay(path: Path, backing: Path, backing_format: str, disk_bytes: int, failure_code: str) -> None:
    """An empty overlay. The backing name in its header is for people and tools: QEMU is always told the chain itself. Raises
    `failure_code`, `no_space`.
    """
    argv = [str(find_program("qemu-img")), "create", "-q", "-u", "-f", "qcow2", "-o", OVERLAY_OPTIONS]
    argv += ["-F", backing_format, "-b", str(backing), str(path), str(disk_bytes)]
    try:
        run_bounded(argv, failure_code, CREATE_SECONDS)
        give(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def starting_chain(runtime: Path, image: GuestImage, saved_disk: Path | None, failure_code: str) -> DiskChain | None:
    """Create the first overlay of a machine, over the saved disk or the image's own; None for an image without a disk."""
    if image.disk is None:
        return None
    base = image.disk.absolute()
    create_overlay(runtime / overlay_name(0), saved_disk or base, "qcow2" if saved_disk else "raw", image.disk_bytes, failure_code)
    nodes: list[Mapping[str, object]] = [{"node-name": "image", "driver": "raw", "read-only": True, "file": _file(base)}]
    if saved_disk is not None:
        nodes.append({"node-name": "saved", "driver": "qcow2", "read-only": True, "file": _file(saved_disk), "backing": "image"})
    nodes.append(overlay_node(0, backing=nodes[-1]["node-name"]))
    return DiskChain(tuple(nodes), node_name(0))


def overlay_node(number: int, backing: object) -> dict[str, object]:
    node = {"node-name": node_name(number), "driver": "qcow2", "file": _file(Path(overlay_name(number))), "backing": backing}
    return {**node, "cache": {"no-flush": True}}


def _file(path: Path) -> dict[str, object]:
    return {"driver": "file", "filename": str(path)}


def live_overlays(monitor: Monitor, runtime: Path) -> list[Path]:
    """The overlays that QEMU has in the disk's chain now, oldest first; the last one is being written. Empty for a machine without a disk.

    Asked of QEMU and not remembered: a capture that died after its snapshot has added one that no note of ours names.
    """
    devices = monitor.call("query-block")
    ours = [device for device in devices if DISK_DEVICE in str(device.get("qdev", ""))] if isinstance(devices, list) else []
    if not ours:
        return []
    layer = ours[0]["inserted"]["image"]
    found: list[Path] = []
    while layer is not None:
        path = runtime / file_name_of(layer)
        if path.parent == runtime and OVERLAY_NAME.match(path.name):
            found.append(path)
        layer = layer.get("backing-image")
    return found[::-1]


def file_name_of(layer: Mapping[str, str]) -> str:
    """A node whose options QEMU cannot write as a plain name is shown as `json:{...}`."""
    name = layer["filename"]
    if not name.startswith("json:"):
        return name
    options = json.loads(name.removeprefix("json:"))
    while "filename" not in options:
        options = options["file"]
    return str(options["filename"])


@dataclass(frozen=True)
class NextOverlay:
    """An overlay that QEMU knows and does not use yet, and the node that it will lie over."""

    number: int
    over: str

    @property
    def node(self) -> str:
        return node_name(self.number)


def add_next_overlay(monitor: Monitor, runtime: Path, image_bytes: int, live: list[Path]) -> NextOverlay:
    """Create the overlay that the next snapshot switches to and make it known to QEMU; the guest notices nothing.

    What an earlier capture prepared and never used, or a flattening has emptied, is taken away first. `live` as `live_overlays` gave it,
    not empty.
    """
    remove_unused_overlays(monitor, runtime, live)
    top = number_of(live[-1])
    create_overlay(runtime / overlay_name(top + 1), Path(live[-1].name), "qcow2", image_bytes, "capture_failed")
    monitor.call("blockdev-add", overlay_node(top + 1, backing=None))
    return NextOverlay(top + 1, node_name(top))


def remove_unused_overlays(monitor: Monitor, runtime: Path, live: list[Path]) -> None:
    """All that are not in the chain; each file goes after QEMU has closed it."""
    unused = {path for path in runtime.iterdir() if OVERLAY_NAME.match(path.name)} - set(live)
    for path in sorted(unused, key=number_of, reverse=True):  # QEMU lets go of none that another one lies over
        remove_unused_overlay(monitor, runtime, number_of(path))


def remove_unused_overlay(monitor: Monitor, runtime: Path, number: int) -> None:
    """QEMU refuses to remove a node that is in use; then the file stays too."""
    try:
        monitor.call("blockdev-del", {"node-name": node_name(number)})
    except MonitorError as error:
        if "Failed to find node" not in str(error):
            raise MachineError("capture_failed", f"The prepared overlay {number} of {runtime} cannot be removed: {error}") from error
    (runtime / overlay_name(number)).unlink(missing_ok=True)
