"""What QEMU alone takes to bring the same machine back: `savevm` and `loadvm`, and a full migration to a file and from it."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from keepstate_site.demo.agent import PROGRAM
from tests.gates.room import IMAGES
from tests.support.waiting import until
from workers.guest.image import list_images
from workers.machine.driver import GuestImage, MachineSpec
from workers.machine.qemu.argv import GUEST_SOCKET, OPERATIONS_SOCKET, DiskChain, command_line
from workers.machine.qemu.binary import find_qemu
from workers.machine.qemu.disk import overlay_node
from workers.machine.qemu.driver import QemuDriver
from workers.machine.qemu.guest_channel import GuestConnection, NoAnswer
from workers.machine.qemu.monitor import Monitor
from workers.machine.runtime import connect

_LONG = 120.0


def peers(memory_mib: int, ballast: str, rounds: int) -> dict[str, list[float]]:
    """Seconds: of each save, and from the start of a process to the guest's answer."""
    built = [image for image in list_images(IMAGES) if image.name == "debian-python"]
    image = max(built, key=lambda one: one.kernel.stat().st_mtime)  # an older recipe's may lie beside it
    found: dict[str, list[float]] = {name: [] for name in ("savevm", "loadvm", "migrate to a file", "migrate from a file")}
    with tempfile.TemporaryDirectory(prefix="keepstate-peer-") as scratch:
        alone = _Alone(Path(scratch), image, MachineSpec("peer", memory_mib << 20, 1))
        alone.boot(ballast)
        for number in range(rounds):
            found["savevm"].append(alone.timed(lambda: alone.human(f"savevm s{number}")))  # noqa: B023  called at once
            found["migrate to a file"].append(alone.timed(alone.migrate_out))
            alone.kill()
            found["migrate from a file"].append(alone.timed(alone.migrate_in))
            alone.kill()
            found["loadvm"].append(alone.timed(lambda: alone.load(f"s{number}")))  # noqa: B023
        alone.kill()
    return found


class _Alone:
    """The machine as our driver starts it, driven by hand from there."""

    def __init__(self, scratch: Path, image: GuestImage, spec: MachineSpec):
        self._runtime, self._state = scratch / "machine", scratch / "state"
        self._image, self._spec = image, spec
        self._driver = QemuDriver(scratch / "accelerators.json")
        self._process: subprocess.Popen[bytes] | None = None

    def boot(self, ballast: str) -> None:
        machine = self._driver.boot(self._runtime, self._spec, self._image, timeout_seconds=180)
        for program in (PROGRAM, ballast):
            shell = 'python3 -c "$0" >/dev/null 2>&1 </dev/null &'
            machine.exec(["/bin/sh", "-c", shell, program], timeout_seconds=30, output_limit=100)
        ready = ["/bin/sh", "-c", "cat /run/ballast 2>/dev/null || true"]
        until(lambda: machine.exec(ready, timeout_seconds=30, output_limit=100).stdout, 600, "the machine's memory is filled")

    def timed(self, work: Callable[[], None]) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    def human(self, line: str) -> None:
        with self._monitor() as monitor:
            said = monitor.call("human-monitor-command", {"command-line": line}, _LONG)
        if str(said).strip():
            raise SystemExit(f"{line}: {said}")

    def migrate_out(self) -> None:
        """The whole state to a file, the machine stopped for it as `savevm` stops it; it runs on."""
        fd = os.open(self._state, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with self._monitor() as monitor:
            monitor.call("stop")
            monitor.call("migrate-set-parameters", {"max-bandwidth": 1 << 40})
            monitor.send_descriptor("out", fd)
            os.close(fd)
            monitor.call("migrate", {"uri": "fd:out"})
            self._await(lambda: monitor.call("query-migrate"), "completed")

    def migrate_in(self) -> None:
        with self._started("-incoming", "defer") as monitor:
            fd = os.open(self._state, os.O_RDONLY)
            monitor.send_descriptor("in", fd)
            os.close(fd)
            monitor.call("migrate-incoming", {"uri": "fd:in"})
            self._await(lambda: monitor.call("query-status"), "paused", "postmigrate", "prelaunch")
            monitor.call("cont")
        self._answer()

    def load(self, name: str) -> None:
        with self._started("-loadvm", name) as monitor:
            monitor.call("cont")
        self._answer()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        else:
            machine = self._driver.attach(self._runtime)
            assert machine is not None
            machine.kill()

    @contextmanager
    def _started(self, *more: str) -> Iterator[Monitor]:
        base: dict[str, object] = {"driver": "file", "filename": str(self._image.disk)}
        nodes = ({"node-name": "image", "driver": "raw", "read-only": True, "file": base}, overlay_node(0, backing="image"))
        memory = self._runtime / "alone.img"
        memory.unlink(missing_ok=True)
        with open(memory, "xb") as file:
            file.truncate(self._spec.memory_bytes)
        disk = DiskChain(nodes, "overlay-0")
        qemu = find_qemu(self._image.architecture)
        accelerator = self._driver.accelerator(self._image.architecture)
        argv = [*command_line(qemu, accelerator, self._spec, self._image, memory, disk, incoming=False), *more]
        for name in (OPERATIONS_SOCKET, GUEST_SOCKET):
            (self._runtime / name).unlink(missing_ok=True)
        self._process = subprocess.Popen(argv, cwd=self._runtime, stdin=subprocess.DEVNULL)
        with Monitor(self._runtime, OPERATIONS_SOCKET, _LONG, sock=self._listening()) as monitor:
            yield monitor

    def _listening(self) -> socket.socket:
        deadline = time.monotonic() + _LONG
        while True:
            try:
                return connect(self._runtime, OPERATIONS_SOCKET, 1.0)
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.002)

    def _monitor(self) -> Monitor:
        return Monitor(self._runtime, OPERATIONS_SOCKET, _LONG)

    def _answer(self) -> None:
        deadline = time.monotonic() + _LONG
        while time.monotonic() < deadline:
            with connect(self._runtime, GUEST_SOCKET, 5.0) as sock:
                try:
                    GuestConnection(sock).synchronise(time.monotonic() + 5.0)
                    return
                except NoAnswer:
                    continue
        raise SystemExit("the guest does not answer")

    def _await(self, look: Callable[[], object], *wanted: str) -> None:
        deadline = time.monotonic() + _LONG
        while time.monotonic() < deadline:
            status = look()
            if isinstance(status, dict) and status.get("status") in wanted:
                return
            time.sleep(0.002)
        raise SystemExit(f"QEMU did not come to {wanted}")
