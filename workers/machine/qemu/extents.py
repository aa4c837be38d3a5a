"""What a frozen overlay holds: its own allocated extents, without what lies under it."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workers.machine.driver import MachineError
from workers.machine.qemu.binary import find_program

MAP_SECONDS = 600.0


@dataclass(frozen=True)
class Extent:
    """Guest bytes `offset` .. `offset + length`: zeros, or the bytes at `file_offset` of the overlay's file."""

    offset: int
    length: int
    zero: bool
    file_offset: int | None  # None iff zero


def allocated_extents(overlay: Path) -> Iterator[Extent]:
    """Extents in ascending order, as `qemu-img map` prints them one to a line: memory stays bounded however many there are.

    Prerequisites: the overlay is frozen (a machine may still have it open under its live one). Its backing file is not opened. Raises
    `capture_failed` if the file cannot be read to its end; extents that were yielded before that must then not be used.
    """
    node = {"driver": "qcow2", "file": {"driver": "file", "filename": str(overlay)}, "backing": None}
    argv = [str(find_program("qemu-img")), "map", "-U", "--output=json", f"json:{json.dumps(node)}"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in process.stdout:
                extent = _parse(line)
                if extent is not None:
                    yield extent
            if process.wait(MAP_SECONDS) != 0:
                complaint = process.stderr.read(2000).decode(errors="replace").strip()
                raise MachineError("capture_failed", f"The overlay {overlay.name} cannot be read: {complaint}")
        finally:
            process.kill()  # a reader that stopped early; no effect on one that has ended


def _parse(line: bytes) -> Extent | None:
    """One object of the printed array; None for what the overlay does not hold itself."""
    text = line.strip().strip(b"[],")
    if not text:
        return None
    entry = json.loads(text)
    if not entry["present"]:
        return None
    if entry["zero"] and not entry["data"]:
        return Extent(entry["start"], entry["length"], True, None)
    if "offset" not in entry:
        raise MachineError("capture_failed", "The overlay holds compressed or encrypted clusters, which a live machine does not write.")
    return Extent(entry["start"], entry["length"], False, entry["offset"])
