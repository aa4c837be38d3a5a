"""What a machine test needs without the store: a command in the guest, and the saved files of a resume, made from a capture."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from workers.machine.driver import PAGE_BYTES, Capture, GuestImage, Machine, SavedState
from workers.machine.qemu.extents import allocated_extents
from workers.machine.qemu.qcow2 import write_overlay

BOOT_SECONDS = 120.0
GUEST_SECONDS = 60.0


def run(machine: Machine, script: str) -> str:
    """What a shell script in the guest prints; it must succeed."""
    result = machine.exec(["sh", "-c", script], timeout_seconds=30, output_limit=65536)
    assert (result.exit_code, result.timed_out) == (0, False), result
    return result.stdout.decode().strip()


def assemble(capture: Capture, image: GuestImage, directory: Path) -> SavedState:
    """The moment of `capture` as files of their own: the machine and its runtime directory may go afterwards."""
    directory.mkdir()
    memory, devices = directory / "memory.img", directory / "devices"
    assemble_memory(capture, memory)
    shutil.copyfile(capture.devices, devices)
    disk = None
    if image.disk is not None:
        disk = directory / "disk.qcow2"
        write_overlay(disk, image.disk_bytes, image.disk, disk_units(capture))
    return SavedState(memory, disk, devices)


def assemble_memory(capture: Capture, target: Path) -> None:
    """The base image with the captured pages over it."""
    size = capture.memory_base.stat().st_size
    with open(capture.memory_base, "rb") as base, open(target, "xb") as out:
        out.truncate(size)
        for start, end in data_extents(base.fileno(), size):
            os.pwrite(out.fileno(), os.pread(base.fileno(), end - start, start), start)
        pages = np.memmap(capture.pages, dtype=np.uint8, mode="r") if len(capture.page_numbers) else np.empty(0, dtype=np.uint8)
        for number, data in zip(capture.page_numbers.tolist(), pages.reshape(-1, PAGE_BYTES), strict=True):
            os.pwrite(out.fileno(), data.data, number * PAGE_BYTES)


def data_extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    position = 0
    while position < size:
        try:
            position = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(fd, position, os.SEEK_HOLE)
        yield position, end
        position = end


def disk_units(capture: Capture) -> Iterator[tuple[int, bytes | None]]:
    """Every unit that the layers above the image hold, the newest layer's word last; ascending."""
    found: dict[int, tuple[Path, int] | None] = {}
    for layer in [*([capture.disk_base] if capture.disk_base else []), *capture.overlays]:
        for extent in allocated_extents(layer):
            for step in range(0, extent.length, PAGE_BYTES):
                at = None if extent.file_offset is None else (layer, extent.file_offset + step)
                found[(extent.offset + step) // PAGE_BYTES] = at
    for unit in sorted(found):
        place = found[unit]
        if place is None:
            yield unit, None
        else:
            with open(place[0], "rb") as file:
                file.seek(place[1])
                yield unit, file.read(PAGE_BYTES).ljust(PAGE_BYTES, b"\0")
