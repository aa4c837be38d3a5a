"""The fake driver: starts and finds fake machines on this host."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from workers.machine.digests import file_sha256
from workers.machine.driver import Capabilities, GuestImage, Machine, MachineError, MachineSpec, SavedState
from workers.machine.fake import guest, hypervisor
from workers.machine.fake.faults import FakeFaults
from workers.machine.fake.machine import FakeMachine
from workers.machine.fake.monitor import NoReply, call
from workers.machine.process import alive, identity, spawn
from workers.machine.process.kill import kill
from workers.machine.runtime import claim, discard, process_of, read_record, write_record

MEMORY_NAME = "memory.img"
ERRORS_NAME = "errors.log"
ROOT = Path(__file__).resolve().parents[3]
START = """
import sys
sys.path.insert(0, sys.argv[1])
from workers.machine.fake.hypervisor import main
main(sys.argv[2], int(sys.argv[3]), sys.argv[4] or None)
"""


class FakeDriver:
    """Runs anywhere Linux and Python do. An image needs existing kernel and initrd files, whose content is never read, and no disk."""

    name = "fake"

    def __init__(self, faults: FakeFaults | None = None):
        self.faults = faults or FakeFaults()

    def capabilities(self) -> Capabilities:
        return Capabilities(frozenset({os.uname().machine}), live_capture=True, disk=False, network=False, fresh_randomness=True)

    def pin_facts(self, architecture: str) -> dict[str, str]:
        if architecture != os.uname().machine:
            raise MachineError("hypervisor_missing", f"The fake runs {os.uname().machine}, not {architecture}.")
        source = "-".join(file_sha256(Path(str(module.__file__)))[:16] for module in (hypervisor, guest))
        return {"hypervisor": self.name, "architecture": architecture, "hypervisor_sha256": source, "host_kernel": os.uname().release}

    def pin_facts_without_network(self, architecture: str) -> dict[str, str] | None:
        return None

    def boot(self, runtime: Path, spec: MachineSpec, image: GuestImage, *, timeout_seconds: float) -> Machine:
        machine = self._start(runtime, spec, image, None, timeout_seconds, "boot_failed", self.faults.boot_fails)
        machine.run()
        return machine

    def resume(self, runtime: Path, spec: MachineSpec, image: GuestImage, saved: SavedState, *, timeout_seconds: float) -> Machine:
        return self._start(runtime, spec, image, saved, timeout_seconds, "resume_failed", self.faults.resume_fails)

    def attach(self, runtime: Path) -> Machine | None:
        record = read_record(runtime, self.name)
        if record is None or not alive.is_held(runtime) or process_of(runtime, record) is None:
            return None
        return FakeMachine(runtime, record, self.faults)

    def _start(
        self, runtime: Path, spec: MachineSpec, image: GuestImage, saved: SavedState | None, seconds: float, code: str, fault: str | None
    ) -> Machine:
        _check(spec, image, saved, code)
        lock_fd = claim(runtime, code)
        process = None
        try:
            memory = saved.memory.resolve() if saved else _empty_memory(runtime, spec.memory_bytes)
            record = {"driver": self.name, "memory": str(memory), "memory_inode": memory.stat().st_ino, "memory_bytes": spec.memory_bytes}
            write_record(runtime, record)
            arguments = [str(ROOT), str(memory), str(spec.memory_bytes), str(saved.devices.resolve()) if saved else ""]
            process = _spawn([sys.executable, "-S", "-c", START, *arguments], runtime, lock_fd, record)
            lock_fd = _closed(lock_fd)
            if fault is not None:
                raise MachineError(code, fault)
            _wait_until_it_answers(runtime, seconds)
            return FakeMachine(runtime, {**record, "process": process.as_record()}, self.faults)
        except BaseException as error:
            lock_fd = _closed(lock_fd)
            kill(runtime, process)
            words = _last_words(runtime)
            discard(runtime)
            if isinstance(error, (OSError, NoReply, MachineError)):
                raise MachineError(code, f"{error} No process and no file of the machine is left. {words}") from error
            raise


def _spawn(argv: list[str], runtime: Path, lock_fd: int, record: Mapping[str, object]) -> identity.ProcessIdentity:
    with open(runtime / ERRORS_NAME, "wb") as errors:
        pid = spawn.spawn(argv, runtime, lock_fd, errors.fileno())
    process = identity.identify(pid)
    if process is None:
        raise MachineError("machine_dead", "The fake hypervisor ended as it started.")
    write_record(runtime, {**record, "process": process.as_record()})
    return process


def _last_words(runtime: Path) -> str:
    path = runtime / ERRORS_NAME
    return path.read_text(errors="replace")[-500:].strip() if path.exists() else ""


def _closed(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1


def _empty_memory(runtime: Path, memory_bytes: int) -> Path:
    memory = (runtime / MEMORY_NAME).resolve()
    with open(memory, "xb") as file:
        file.truncate(memory_bytes)
    return memory


def _wait_until_it_answers(runtime: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            call(runtime, "status", 1.0)
            return
        except (MachineError, NoReply) as error:
            if not alive.is_held(runtime) or time.monotonic() > deadline:
                raise MachineError("boot_failed", f"The fake hypervisor did not come up: {error}") from error
        time.sleep(0.005)


def _check(spec: MachineSpec, image: GuestImage, saved: SavedState | None, code: str) -> None:
    if image.disk is not None:
        raise MachineError("bad_image", "A fake machine has no disk; use an image without one. Nothing was started.")
    for path in (image.kernel, image.initrd):
        if not path.is_file():
            raise MachineError("bad_image", f"The image {image.name} lacks its file {path}. Nothing was started.")
    if spec.memory_bytes <= 0 or spec.memory_bytes % (1 << 20) or spec.cpus < 1:
        raise MachineError(code, "A machine has a whole number of MiB of memory and at least one processor. Nothing was started.")
    if saved is None:
        return
    if not saved.devices.is_file() or not saved.memory.is_file() or saved.memory.stat().st_size != spec.memory_bytes:
        raise MachineError(code, "The saved files are not there or not of this machine's size. Nothing was started.")
