"""A fake machine, found by its runtime directory as a real one is."""

import base64
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from workers.machine.driver import Capture, Ending, ExecResult, GuestIdentity, MachineError, MachineState, MachineStatus, never, nothing
from workers.machine.fake.capture import capture
from workers.machine.fake.faults import FakeFaults
from workers.machine.fake.guest import ENDED, TIMED_OUT
from workers.machine.fake.monitor import NoReply, call
from workers.machine.process import alive
from workers.machine.process.kill import kill
from workers.machine.runtime import process_of

GRACE_SECONDS = 5.0
INSPECT_SECONDS = 3.0
IDENTIFY = 'mkdir -p etc && echo "$1" > etc/machine-id && echo "$2" > etc/hostname'


class FakeMachine:
    def __init__(self, runtime: Path, record: Mapping[str, Any], faults: FakeFaults):
        self.runtime = runtime
        self._record, self._faults = record, faults
        self._process = process_of(runtime, record)

    def inspect(self) -> MachineStatus:
        pid = self._process.pid if self._process else None
        try:
            if self._faults.silent_monitor and alive.is_held(self.runtime):
                raise NoReply("fault asked for")
            running = call(self.runtime, "status", INSPECT_SECONDS)["running"]
        except (MachineError, NoReply) as error:
            if not alive.is_held(self.runtime):
                return MachineStatus(MachineState.DEAD, None, "the process is gone; how it ended is not known.", Ending.UNKNOWN)
            return MachineStatus(MachineState.RUNNING, pid, f"the process lives and its monitor does not answer: {error}")
        if self._faults.guest_ended is not None:
            return MachineStatus(MachineState.DEAD, pid, "the guest has ended (fault asked for)", self._faults.guest_ended)
        return MachineStatus(MachineState.RUNNING if running else MachineState.PAUSED, pid)

    def ping(self, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while self._ask("ping", timeout_seconds).get("silent"):
            if time.monotonic() > deadline:
                raise MachineError("guest_silent", "The guest did not answer in time (it is stopped).")
            time.sleep(0.01)

    def greet(self, timeout_seconds: float, identity: GuestIdentity | None = None) -> Callable[[], None]:
        """A fake guest has its host's clock and randomness; its files say who it is, as those of a real one do."""
        self.ping(timeout_seconds)
        if identity is not None:
            argv = ["sh", "-c", IDENTIFY, "sh", identity.machine_id, identity.hostname]
            if self.exec(argv, timeout_seconds=timeout_seconds, output_limit=1000).exit_code != 0:
                raise MachineError("exec_failed", "The guest did not take its identity.")
        return self._clock

    def _clock(self) -> None:
        if self._faults.dies_before_its_clock:
            self.kill()
            raise MachineError("machine_dead", "The machine's process is gone; the guest cannot answer.")
        if self._faults.clock_stays_wrong:
            raise MachineError("exec_failed", "The guest answers but its clock could not be set (fault asked for).")

    def exec(self, argv: Sequence[str], *, timeout_seconds: float, output_limit: int, cancelled: Callable[[], bool] = never) -> ExecResult:
        if not argv or any("\0" in word for word in argv) or output_limit < 1 or timeout_seconds <= 0:
            raise MachineError("exec_failed", "A command needs a program, no NUL, an output limit and a time limit; nothing ran.")
        began = time.monotonic()
        seconds = math.ceil(timeout_seconds)
        with self._ended_when(cancelled) as ended:
            answer = self._ask("exec", timeout_seconds + GRACE_SECONDS, argv=list(argv), seconds=seconds, limit=output_limit)
        duration = time.monotonic() - began
        out, err = base64.b64decode(answer["out"]), base64.b64decode(answer["err"])
        timed_out = answer["code"] == TIMED_OUT and duration >= timeout_seconds
        cut = max(len(out), len(err)) > output_limit
        code, by_us = answer["code"], ended.is_set() and answer["code"] == ENDED
        return ExecResult(None if timed_out else code, out[:output_limit], err[:output_limit], cut, timed_out, duration, by_us)

    @contextmanager
    def _ended_when(self, cancelled: Callable[[], bool]) -> Iterator[threading.Event]:
        """While this is open: the guest's commands are ended once `cancelled` says so, and the event tells that they were. It is said again
        until they have ended, for one may not have begun yet.
        """
        ended, over = threading.Event(), threading.Event()

        def watch() -> None:
            while not over.wait(0.02):
                if ended.is_set() or cancelled():
                    ended.set()
                    with suppress(MachineError):  # who waits for the command is told
                        self._ask("end", INSPECT_SECONDS)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield ended
        finally:
            over.set()
            thread.join()

    def capture(self, staging: Path, *, continue_after: bool = True, at_stop: Callable[[], None] = nothing) -> Capture:
        if self._process is None or not alive.is_held(self.runtime):
            raise MachineError("machine_dead", "Nothing was saved: the machine's process is gone.")
        return capture(
            self.runtime, self._process.pid, Path(self._record["memory"]), self._record["memory_inode"], self._record["memory_bytes"],
            staging, continue_after, self._faults, at_stop,
        )  # fmt: skip

    def flatten(self, overlays: Sequence[Path]) -> bool:
        """There is no disk, and so nothing to flatten."""
        self._operate("status")
        return False

    def stop(self) -> None:
        self._operate("stop")

    def run(self) -> None:
        self._operate("run")

    def kill(self) -> None:
        kill(self.runtime, self._process)

    def _operate(self, command: str) -> None:
        try:
            call(self.runtime, command)
        except NoReply as error:
            raise MachineError("monitor_silent", str(error)) from error

    def _ask(self, command: str, timeout_seconds: float, **arguments: object) -> dict[str, Any]:
        """Ask the guest. A guest that is stopped or made silent does not answer."""
        if not alive.is_held(self.runtime):
            raise MachineError("machine_dead", "The guest cannot answer: the machine's process is gone.")
        if self._faults.silent_guest:
            raise MachineError("guest_silent", "The guest did not answer in time (fault asked for).")
        try:
            return call(self.runtime, command, timeout_seconds, **arguments)
        except NoReply as error:
            raise MachineError("guest_silent", f"The guest did not answer in time: {error}; a command may have run.") from error
