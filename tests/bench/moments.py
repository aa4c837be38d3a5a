"""Moments of a real agent's machine, as files: what the store's bench saves, ours and its peers' alike.

A debian-python guest of 2 GiB runs the demo's agent. Between two moments it does some file work: copies a part of its Python library,
edits every tenth file of the copy and compiles it, makes archives of the copy, reads one back, drops what is two rounds old. Each moment
but the first is taken from a machine that was resumed from the one before, so that `written` is what a save of a resumed machine is
given. Nothing of ours but the driver takes part.
"""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from keepstate_site.demo.agent import PROGRAM, STATUS
from tests.machine_kit import assemble
from tests.support.waiting import until
from workers.guest.image import list_images
from workers.machine.driver import Capture, GuestImage, Machine, MachineSpec, SavedState
from workers.machine.qemu.driver import QemuDriver
from workers.save.disk import read_overlays

MEMORY_BYTES = 2 << 30
SECONDS = 300.0
#: One round of file work, about 60 to 80 MiB of written pages.
WORK = """
import os, py_compile, shutil, sys, tarfile, zlib
n, root = int(sys.argv[1]), "/root/work"
here = f"{root}/{n}"
os.makedirs(here)
for number, name in enumerate(sorted(name for name in os.listdir("/usr/lib/python3.11") if name.endswith(".py"))):
    shutil.copyfile(f"/usr/lib/python3.11/{name}", f"{here}/{name}")
    if number % 10 == n % 10:
        with open(f"{here}/{name}", "a") as file:
            file.write(f"# edited in round {n}" + chr(10))
        py_compile.compile(f"{here}/{name}", doraise=False)
for archive in (f"{root}/{n}.tar", f"{root}/{n}.second.tar", f"{root}/{n}.third.tar", f"{root}/{n}.fourth.tar"):
    with tarfile.open(archive, "w") as file:
        file.add(here)
with open(f"{root}/{n}.tar", "rb") as file, open(f"{root}/{n}.copy", "wb") as copy:
    check = 0
    while data := file.read(1 << 20):
        check = zlib.crc32(data, check)
        copy.write(data)
shutil.rmtree(f"{root}/{n - 2}", ignore_errors=True)
for old in os.listdir(root):
    if old.startswith(f"{n - 2}."):
        os.remove(f"{root}/{old}")
"""


@dataclass(frozen=True)
class Moment:
    """Raw, sparse image files, and which 4 KiB units of them were written since the moment before (of the first: all with data)."""

    directory: Path

    @property
    def memory(self) -> Path:
        return self.directory / "memory.raw"

    @property
    def disk(self) -> Path:
        return self.directory / "disk.raw"

    def written(self, name: str) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = np.load(self.directory / f"{name}.written.npy")
        return found


def moments(directory: Path, count: int, images: Path) -> list[Moment]:
    """Take them, or find those that an earlier run of the same work has taken into the same directory; about 0.7 GiB of disk each."""
    directory /= hashlib.sha256(f"{WORK} {PROGRAM}".encode()).hexdigest()[:12]
    taken = [Moment(directory / f"{number:02}") for number in range(count)]
    if not all(moment.directory.is_dir() for moment in taken):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        _take(taken, directory, images)
    return taken


def _take(wanted: list[Moment], directory: Path, images: Path) -> None:
    found = list_images(images)
    image = [one for one in found if one.name == "debian-python"][-1]
    driver = QemuDriver(directory / "accelerators.json", next((one for one in found if one.name == "tiny"), None))
    spec, saved = MachineSpec("bench", MEMORY_BYTES, 1), None
    for number, moment in enumerate(wanted):
        runtime = directory / f"machine-{number}"
        machine = _start(driver, runtime, spec, image, saved)
        try:
            machine.exec(["python3", "-c", WORK, str(number)], timeout_seconds=SECONDS, output_limit=1000)
            machine.exec(["sync"], timeout_seconds=SECONDS, output_limit=1000)
            staging = directory / f"staging-{number}"
            staging.mkdir()
            capture = machine.capture(staging, continue_after=False)
            assembled = assemble(capture, image, directory / f"saved-{number}")
        finally:
            machine.kill()
        _keep(capture, assembled, moment, first=saved is None)
        for old in (runtime, staging, *([saved.memory.parent] if saved else [])):
            shutil.rmtree(old)
        saved = assembled
    if saved:
        shutil.rmtree(saved.memory.parent)


def _start(driver: QemuDriver, runtime: Path, spec: MachineSpec, image: GuestImage, saved: SavedState | None) -> Machine:
    if saved is None:
        machine = driver.boot(runtime, spec, image, timeout_seconds=SECONDS)
        shell = 'python3 -c "$0" >/dev/null 2>&1 </dev/null &'
        machine.exec(["/bin/sh", "-c", shell, PROGRAM], timeout_seconds=SECONDS, output_limit=1000)
        until(lambda: bool(machine.exec(["cat", STATUS], timeout_seconds=SECONDS, output_limit=100).stdout), SECONDS, "the agent reports")
        return machine
    machine = driver.resume(runtime, spec, image, saved, timeout_seconds=SECONDS)
    machine.run()
    machine.greet(SECONDS)
    return machine


def _keep(capture: Capture, assembled: SavedState, moment: Moment, *, first: bool) -> None:
    """Under its name only when whole: a directory that is there is complete."""
    making = moment.directory.with_name(moment.directory.name + ".new")
    making.mkdir()
    shutil.copyfile(assembled.devices, making / "devices")
    os.link(assembled.memory, making / "memory.raw")
    assert assembled.disk is not None
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", assembled.disk, making / "disk.raw"], check=True)
    differing, zero = read_overlays(capture.overlays)
    np.save(making / "disk.written.npy", _with_data(making / "disk.raw") if first else np.union1d(differing.units, zero))
    np.save(making / "memory.written.npy", capture.page_numbers)
    making.rename(moment.directory)


def _with_data(image: Path) -> npt.NDArray[np.int64]:
    units = np.memmap(image, np.uint64, mode="r").reshape(-1, 512)
    return np.concatenate([start + np.flatnonzero(units[start : start + 4096].any(axis=1)) for start in range(0, len(units), 4096)])
