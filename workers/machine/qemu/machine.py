"""A QEMU machine, found by its runtime directory. It holds no connection and no state: every verb looks again."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.machine.driver import Capture, ExecResult, MachineError, MachineState, MachineStatus
from workers.machine.process import alive
from workers.machine.process.kill import kill
from workers.machine.qemu.argv import INSPECTION_SOCKET, OPERATIONS_SOCKET
from workers.machine.qemu.capture import capture
from workers.machine.qemu.capture_memory import Subject
from workers.machine.qemu.console import LOG_NAME, console_tail, plain
from workers.machine.qemu.guest import converse
from workers.machine.qemu.guest_channel import GuestConnection
from workers.machine.qemu.guest_clock import set_guest_clock
from workers.machine.qemu.guest_exec import execute
from workers.machine.qemu.guest_hold import HeldChannel
from workers.machine.qemu.monitor import Monitor, MonitorError, MonitorSilent, as_machine_error
from workers.machine.qemu.vcpus import ENDED, run_vcpus, stop_vcpus
from workers.machine.runtime import process_of

INSPECT_SECONDS = 3.0


class QemuMachine:
    """`held`: the guest's channel that a resume opened; the first verb that talks to the guest uses it."""

    def __init__(self, runtime: Path, record: Mapping[str, Any], held: HeldChannel | None = None):
        self.runtime = runtime
        self._held = held
        self._record = record
        self._process = process_of(runtime, record)

    def inspect(self) -> MachineStatus:
        pid = self._process.pid if self._process else None
        if not alive.is_held(self.runtime):
            return MachineStatus(MachineState.DEAD, None, self._how_it_ended())
        try:
            with Monitor(self.runtime, INSPECTION_SOCKET, INSPECT_SECONDS) as monitor:
                return self._status(monitor, pid)
        except (MonitorError, MonitorSilent, OSError) as error:
            if not alive.is_held(self.runtime):
                return MachineStatus(MachineState.DEAD, None, self._how_it_ended())
            return MachineStatus(MachineState.RUNNING, pid, f"the process lives and its monitor does not answer: {error}")

    def ping(self, timeout_seconds: float) -> None:
        self._converse(timeout_seconds, lambda _connection, _deadline: None)  # a guest that synchronises has answered

    def greet(self, timeout_seconds: float) -> None:
        """The synchronisation drops the stale bytes; vmgenid has reseeded the kernel's generator by itself."""
        self._converse(timeout_seconds, set_guest_clock)

    def exec(self, argv: Sequence[str], *, timeout_seconds: float, output_limit: int) -> ExecResult:
        self._require_guest()
        self._drop_held()
        return execute(self.runtime, argv, timeout_seconds, output_limit, self._require_guest)

    def capture(self, staging: Path, *, continue_after: bool = True) -> Capture:
        if self._process is None or not alive.is_held(self.runtime):
            raise MachineError("machine_dead", "Nothing was saved: the machine's process is gone.")
        self._drop_held()
        subject = Subject(
            self.runtime, self._process.pid, Path(self._record["memory"]), self._record["memory_inode"],
            self._record["memory_bytes"], self._record["disk_bytes"], Path(self._record["disk"]) if self._record["disk"] else None,
        )  # fmt: skip
        return capture(subject, staging, continue_after)

    def stop(self) -> None:
        self._operate(stop_vcpus, "The machine could not be stopped")

    def run(self) -> None:
        self._operate(run_vcpus, "The machine could not be set running")

    def kill(self) -> None:
        self._drop_held()
        kill(self.runtime, self._process)

    def _operate(self, verb: Callable[[Monitor], None], failure: str) -> None:
        try:
            with Monitor(self.runtime, OPERATIONS_SOCKET) as monitor:
                verb(monitor)
        except (MonitorError, MonitorSilent, OSError) as error:
            raise as_machine_error(error, "monitor_silent", self.runtime, failure) from error

    def _status(self, monitor: Monitor, pid: int | None) -> MachineStatus:
        status = monitor.status()
        if status in ENDED:
            return MachineStatus(MachineState.DEAD, pid, f"{ENDED[status]}. {_ends(console_tail(monitor, self.runtime))}")
        if status == "running":
            return MachineStatus(MachineState.RUNNING, pid)
        return MachineStatus(MachineState.PAUSED, pid, None if status in ("paused", "prelaunch") else f"QEMU's state is {status}")

    def _how_it_ended(self) -> str:
        log = self.runtime / LOG_NAME
        return f"the process is gone; how it ended is not known. {_ends(plain(log.read_bytes()) if log.exists() else '')}".strip()

    def _converse(self, timeout_seconds: float, work: Callable[[GuestConnection, float], None]) -> None:
        deadline = time.monotonic() + timeout_seconds
        self._require_guest()
        held, self._held = self._held, None
        try:
            converse(self.runtime, deadline, lambda connection: work(connection, deadline), self._require_guest, held)
        except MachineError as error:
            if error.code == "guest_silent":
                self._require_guest()
            raise

    def _drop_held(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _require_guest(self) -> None:
        """Raises `machine_dead` where no answer can come any more."""
        status = self.inspect()
        if status.state is MachineState.DEAD:
            raise MachineError("machine_dead", f"The guest cannot answer: {status.reason}")


def _ends(console: str) -> str:
    return f"Its console ends: {console}" if console else ""
