"""What a driver may offer beside the contract: scripts of ours in the guest, an environment, a terminal. The fake has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class ScriptResult:
    """`code` is None where the guest does not say. All of it was written by the guest."""

    code: int | None
    stdout: bytes
    stderr: str  # cut to a few hundred characters, printable


class Line(Protocol):
    """A connection to a machine's terminal. `read` and `type` may run in two threads."""

    def read(self) -> bytes:
        """What the guest printed since; waits for it. Empty: the machine has ended, or `close` was called."""

    def lost(self) -> bool:
        """Whether the guest printed more than there was room for, since this was asked last. For the thread that reads."""

    def type(self, data: bytes) -> int:
        """Give the guest input and return how much of it was dropped, because the guest did not take it. Raises MachineError."""

    def close(self) -> None: ...


@runtime_checkable
class TakesEnvironment(Protocol):
    def environment(self, text: str, timeout_seconds: float) -> None:
        """Shell text that every program of the guest finds carried out.

        Raises MachineError: `exec_failed`, `guest_silent`, `machine_dead`.
        """


@runtime_checkable
class RunsScripts(Protocol):
    runtime: Path

    def terminal(self) -> Line:
        """Connect to the terminal; one connection at a time is served. Raises MachineError: `machine_dead`, `exec_failed`."""

    def script(
        self, script: str, arguments: Sequence[str], *, data: bytes = b"", timeout_seconds: float, output_limit: int
    ) -> ScriptResult:
        """Run a POSIX shell script as root with `data` (up to 1 MiB) as its input.

        Raises MachineError: `exec_failed` (nothing ran, the answer makes no sense, or more than `output_limit` bytes came),
        `guest_silent` (it may have run, and is never started twice), `machine_dead`.
        """
