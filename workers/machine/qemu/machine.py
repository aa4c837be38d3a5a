"""A QEMU machine, found by its runtime directory. It holds no connection and no state: every verb looks again."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from workers.machine.driver import Capture, Ending, ExecResult, GuestIdentity, MachineError, MachineState, MachineStatus, never, nothing
from workers.machine.process import alive
from workers.machine.process.kill import kill
from workers.machine.qemu.argv import INSPECTION_SOCKET, OPERATIONS_SOCKET
from workers.machine.qemu.capture import capture
from workers.machine.qemu.capture_memory import Subject
from workers.machine.qemu.console import LOG_NAME, console_tail, plain
from workers.machine.qemu.early import early
from workers.machine.qemu.flatten import flatten
from workers.machine.qemu.guest import converse
from workers.machine.qemu.guest_channel import GuestConnection
from workers.machine.qemu.guest_clock import set_guest_clock
from workers.machine.qemu.guest_environment import give_environment
from workers.machine.qemu.guest_exec import execute
from workers.machine.qemu.guest_freeze import is_marked, set_going
from workers.machine.qemu.guest_hold import HeldChannel
from workers.machine.qemu.guest_identity import give_identity
from workers.machine.qemu.guest_script import run_script
from workers.machine.qemu.guest_seed import reseed
from workers.machine.qemu.monitor import Monitor, MonitorError, MonitorSilent, as_machine_error
from workers.machine.qemu.platform import platform_of
from workers.machine.qemu.terminal import TerminalLine
from workers.machine.qemu.vcpus import ENDED, ENDINGS, run_vcpus, stop_vcpus
from workers.machine.runtime import process_of
from workers.machine.script import ScriptResult

INSPECT_SECONDS = 3.0
GOING_SECONDS = 20.0  # a guest's programs that a save which died has left frozen
PANIC = "Kernel panic - not syncing"
T = TypeVar("T")


class QemuMachine:
    """`held`: the guest's channel that a resume opened; the first verb that talks to the guest uses it."""

    def __init__(self, runtime: Path, record: Mapping[str, Any], held: HeldChannel | None = None):
        self.runtime = runtime
        self._held = held
        self._record = record
        self._process = process_of(runtime, record)
        self._platform = platform_of(str(record.get("architecture", "x86_64")))

    def inspect(self) -> MachineStatus:
        pid = self._process.pid if self._process else None
        if not alive.is_held(self.runtime):
            return MachineStatus(MachineState.DEAD, None, self._how_it_ended(), Ending.UNKNOWN)
        try:
            with Monitor(self.runtime, INSPECTION_SOCKET, INSPECT_SECONDS) as monitor:
                return self._status(monitor, pid)
        except (MonitorError, MonitorSilent, OSError) as error:
            if not alive.is_held(self.runtime):
                return MachineStatus(MachineState.DEAD, None, self._how_it_ended(), Ending.UNKNOWN)
            return MachineStatus(MachineState.RUNNING, pid, f"the process lives and its monitor does not answer: {error}")

    def ping(self, timeout_seconds: float) -> None:
        self._converse(timeout_seconds, lambda _connection, _deadline: None)  # a guest that synchronises has answered

    def greet(self, timeout_seconds: float, identity: GuestIdentity | None = None) -> Callable[[], None]:
        """The synchronisation drops the stale bytes. Where no vmgenid reseeds the generator, programs are held until it is done, and until
        the clock is right: there it is waited for.
        """

        def say(connection: GuestConnection, deadline: float, answered: Callable[[], None]) -> None:
            if not self._platform.tells_of_clones:
                reseed(connection, deadline)
            if identity is not None:
                give_identity(connection, identity, deadline)
            if self._platform.tells_of_clones:
                answered()  # the clock takes the agent a tenth of a second more when it is emulated
            set_guest_clock(connection, deadline)
            if not self._platform.tells_of_clones:
                set_going(self.runtime, connection, deadline, only_frozen=identity is not None)

        return early(lambda answered: self._converse(timeout_seconds, partial(say, answered=answered)))

    def exec(self, argv: Sequence[str], *, timeout_seconds: float, output_limit: int, cancelled: Callable[[], bool] = never) -> ExecResult:
        self._require_guest()
        self._drop_held()
        return execute(self.runtime, argv, timeout_seconds, output_limit, self._require_guest, cancelled)

    def script(
        self, script: str, arguments: Sequence[str], *, data: bytes = b"", timeout_seconds: float, output_limit: int
    ) -> ScriptResult:
        self._require_guest()
        self._drop_held()
        return run_script(self.runtime, script, arguments, data, timeout_seconds, output_limit, self._require_guest)

    def environment(self, text: str, timeout_seconds: float) -> None:
        self._converse(timeout_seconds, lambda connection, deadline: give_environment(connection, text, deadline))

    def terminal(self) -> TerminalLine:
        return TerminalLine(self.runtime)

    def capture(self, staging: Path, *, continue_after: bool = True, at_stop: Callable[[], None] = nothing) -> Capture:
        if self._process is None or not alive.is_held(self.runtime):
            raise MachineError("machine_dead", "Nothing was saved: the machine's process is gone.")
        self._drop_held()
        subject = Subject(
            self.runtime, self._process.pid, Path(self._record["memory"]), self._record["memory_inode"],
            self._record["memory_bytes"], self._record["disk_bytes"], Path(self._record["disk"]) if self._record["disk"] else None,
        )  # fmt: skip
        return capture(subject, staging, continue_after, at_stop, hold_programs=not self._platform.tells_of_clones)

    def flatten(self, overlays: Sequence[Path]) -> bool:
        return self._operate(lambda monitor: flatten(monitor, self.runtime, overlays), "The overlays were not flattened")

    def stop(self) -> None:
        self._operate(stop_vcpus, "The machine could not be stopped")

    def run(self) -> None:
        self._operate(run_vcpus, "The machine could not be set running")
        if is_marked(self.runtime):
            self._converse(GOING_SECONDS, lambda connection, deadline: set_going(self.runtime, connection, deadline))

    def kill(self) -> None:
        self._drop_held()
        kill(self.runtime, self._process)

    def _operate(self, verb: Callable[[Monitor], T], failure: str) -> T:
        try:
            with Monitor(self.runtime, OPERATIONS_SOCKET) as monitor:
                return verb(monitor)
        except (MonitorError, MonitorSilent, OSError) as error:
            raise as_machine_error(error, "monitor_silent", self.runtime, failure) from error

    def _status(self, monitor: Monitor, pid: int | None) -> MachineStatus:
        status = monitor.status()
        if status in ENDED:
            return _dead(status, pid, console_tail(monitor, self.runtime))
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


def _dead(status: str, pid: int | None, console: str) -> MachineStatus:
    """Our guests' kernels restart after a panic, which stops the machine as a shutdown does: their last line tells the two apart."""
    panicked = status == "shutdown" and PANIC in console
    told = "guest-panicked" if panicked else status
    return MachineStatus(MachineState.DEAD, pid, f"{ENDED[told]}. {_ends(console)}", ENDINGS[told])


def _ends(console: str) -> str:
    return f"Its console ends: {console}" if console else ""
