"""Overlays over a raw base image, made and read back by QEMU's own tools."""

import subprocess
from pathlib import Path

from tests.unit.workers.sparse_files import PAGE
from workers.machine.qemu.disk import OVERLAY_OPTIONS

UNITS = 1024


class Chain:
    """Overlays over a base, each with what `qemu-io` wrote while it was the newest."""

    def __init__(self, base: Path):
        self.base, self.overlays = base, list[Path]()

    def overlay(self, *commands: str) -> "Chain":
        path = self.base.with_name(f"overlay-{len(self.overlays)}.qcow2")
        below, form = (self.overlays[-1], "qcow2") if self.overlays else (self.base, "raw")
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-o", OVERLAY_OPTIONS, "-F", form, "-b", below, path, str(UNITS * PAGE)], check=True
        )
        for command in commands:
            subprocess.run(["qemu-io", "-f", "qcow2", "-c", command, path], check=True, capture_output=True)
        self.overlays.append(path)
        return self

    def plain(self) -> bytes:
        """The whole disk as a guest reads it."""
        raw = self.base.with_name("plain.raw")
        subprocess.run(["qemu-img", "convert", "-O", "raw", self.overlays[-1], raw], check=True)
        return raw.read_bytes()


def write(unit: int, count: int, pattern: int) -> str:
    return f"write -P {pattern} {unit * PAGE} {count * PAGE}"


def zero(unit: int, count: int) -> str:
    return f"write -z {unit * PAGE} {count * PAGE}"
