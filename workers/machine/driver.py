"""The contract of a machine driver: what KeepState asks of a hypervisor, and nothing else.

`workers/machine/qemu` is the real one, `workers/machine/fake` the complete fake; `tests/driver_suite.py` holds both to
this text. A machine lives in its *runtime directory*: everything that a restarted worker needs to find it again is there.

Verbs state prerequisites, effects on success and effects on failure. All raise `MachineError` and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # guest images, which know this module, are built by a Python that has nothing but its own library
    import numpy as np
    import numpy.typing as npt

PAGE_BYTES = 4096


def nothing() -> None:
    """Nothing is to be done."""


def never() -> bool:
    """The answer of a caller who does not cancel."""
    return False


class MachineError(Exception):
    """A machine could not do what was asked. `code` is stable; the text says what happened and what did not.

    Codes: hypervisor_missing, boot_failed, resume_failed, guest_silent, machine_dead, capture_failed, no_space,
    exec_failed, bad_image, monitor_silent (the process lives and does not obey), kill_failed (nobody was harmed).
    """

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class GuestImage:
    """The files of one content-addressed image on this host. All are read-only and never change."""

    digest: str
    name: str
    architecture: str
    kernel: Path
    initrd: Path
    disk: Path | None  # raw; None for a machine that lives in memory alone
    disk_bytes: int
    command_line: str


@dataclass(frozen=True)
class MachineSpec:
    """What a machine is made of: equal at boot and at each resume, kept in the manifest."""

    session_id: str
    memory_bytes: int  # a multiple of 1 MiB
    cpus: int
    network: bool = True  # False for what was saved before machines had one: it resumes as it was


@dataclass(frozen=True)
class SavedState:
    """Verified files of a checkpoint, assembled on this host. None of them is ever written to."""

    memory: Path  # sparse, exactly memory_bytes long
    disk: Path | None  # qcow2 over the image's disk
    devices: Path


@dataclass(frozen=True)
class GuestIdentity:
    """What a guest is told that it is, where another machine has begun with the same memory."""

    machine_id: str  # 32 lower-case hexadecimal digits, as /etc/machine-id has them
    hostname: str  # letters, digits and '-', at most 63


class MachineState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"  # alive, virtual CPUs stopped
    DEAD = "dead"


class Ending(StrEnum):
    """How a machine ended that nobody has killed."""

    GUEST_SHUTDOWN = "guest_shutdown"  # or reset: the guest's doing either way
    GUEST_PANICKED = "guest_panicked"
    HYPERVISOR_ERROR = "hypervisor_error"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class MachineStatus:
    """What was seen at the moment of asking; never a remembered state."""

    state: MachineState
    pid: int | None
    reason: str | None = None  # why it is dead, where that is known
    ending: Ending | None = None  # of a dead one


@dataclass(frozen=True)
class ExecResult:
    exit_code: int | None  # 128 + n for signal n, as a shell says it; None if it was ended at its time limit, or is not known
    stdout: bytes
    stderr: bytes
    truncated: bool  # either stream was cut at the limit
    timed_out: bool
    duration_seconds: float
    cancelled: bool = False  # it was ended because the caller asked; its output was dropped


@dataclass(frozen=True)
class Capture:
    """One moment of a machine: memory, disk and devices of the same stopped window."""

    page_numbers: "npt.NDArray[np.int64]"  # ascending; pages written since the memory image was mapped
    pages: Path  # the bytes of those pages, packed in that order
    memory_base: Path  # the image under them
    disk_base: Path | None  # the assembled disk that the machine was resumed from; None after a boot and without a disk
    overlays: tuple[Path, ...]  # frozen qcow2 overlays above the disk the machine started from, oldest first
    devices: Path
    pause_seconds: float
    pause_parts: Mapping[str, float]  # stop, devices, disk, pages, continue; seconds


@dataclass(frozen=True)
class Capabilities:
    architectures: frozenset[str]
    live_capture: bool
    disk: bool
    network: bool
    fresh_randomness: bool  # a resumed guest's random generator is reseeded


class Machine(Protocol):
    """A live machine, or one that has died: `inspect` tells which."""

    runtime: Path

    def inspect(self) -> MachineStatus:
        """The state as it is now. Never raises for a dead or wedged machine.

        A process that lives and whose monitor does not answer is RUNNING with a `reason`. A guest that shut down, reset or panicked is
        DEAD with a `reason`, and with a `pid` while its process has yet to be killed.
        """

    def ping(self, timeout_seconds: float) -> None:
        """The guest answered within the time, or `guest_silent` / `machine_dead`."""

    def greet(self, timeout_seconds: float, identity: GuestIdentity | None = None) -> Callable[[], None]:
        """After a resume: drop stale bytes of the guest channel, reseed where the hypervisor cannot, give the guest another identity if one
        is given, set its clock. A guest that does not take its identity is `exec_failed`.

        Returns once the guest has answered and all but its clock is done; nothing that is asked of the guest later comes before the clock.
        What it returns waits for that, and raises `exec_failed` for a guest whose clock could not be set.
        """

    def exec(self, argv: Sequence[str], *, timeout_seconds: float, output_limit: int, cancelled: Callable[[], bool] = never) -> ExecResult:
        """Run one command as root in the guest. Time and output are bounded in the guest and again on the host.

        Once `cancelled` says so, the command's processes are ended in the guest; a command that ended before has its own outcome.
        `exec_failed`: it did not start, or the guest's account of it makes no sense. `guest_silent`: no answer; it may have run, and is
        never started twice.
        """

    def capture(self, staging: Path, *, continue_after: bool = True, at_stop: Callable[[], None] = nothing) -> Capture:
        """Prerequisites: running or paused; `staging` is an empty directory. `at_stop` is called right before the machine is stopped, when
        all that takes time has been prepared; what it raises fails the capture and is raised.

        On success: the moment lies in `staging` and in frozen overlays; the machine runs again iff `continue_after`.
        On failure: the machine runs as before (whatever step failed), nothing is left in `staging`; `capture_failed`, `no_space`, or
        `machine_dead`.
        """

    def flatten(self, overlays: Sequence[Path]) -> bool:
        """Make one overlay, with the name of the oldest, of those of a capture, whether the machine runs or not.

        Prerequisite: that capture's reader has ended. True: done, and the other files are gone. False: the disk reads as it did and the
        overlays are as they were (there is nothing to flatten, another capture was begun since, there is no room), or the work goes on
        by itself because it takes longer than some seconds; the next capture waits for it, or breaks it off. `machine_dead`,
        `monitor_silent`, `capture_failed`: as for False.
        """

    def stop(self) -> None:
        """Stop the virtual CPUs; idempotent."""

    def run(self) -> None:
        """Let the virtual CPUs run; idempotent."""

    def kill(self) -> None:
        """SIGKILL, and return only when the kernel says (by the alive-lock) that the process is gone. Idempotent; never harms another
        process.
        """


class MachineDriver(Protocol):
    name: str

    def capabilities(self) -> Capabilities: ...

    def pin_facts(self, architecture: str) -> dict[str, str]:
        """What must be equal for a checkpoint to resume: hypervisor build and firmware hashes, machine type, accelerator, CPU model, device
        list, kernel release. Raises `hypervisor_missing` with the package to install."""

    def pin_facts_without_network(self, architecture: str) -> dict[str, str] | None:
        """The same of a machine whose spec says that it has no network; None from a driver that never started one with."""

    def boot(self, runtime: Path, spec: MachineSpec, image: GuestImage, *, timeout_seconds: float) -> Machine:
        """Prerequisites: `runtime` does not exist or holds no live machine.

        On success: the guest answers. On failure: no process and no file is left behind, the console's tail is in the message.
        """

    def resume(self, runtime: Path, spec: MachineSpec, image: GuestImage, saved: SavedState, *, timeout_seconds: float) -> Machine:
        """Load a saved moment into a new process; the machine is PAUSED: the caller decides when it runs.

        On failure: no process and no file of `runtime` is left behind; `saved` is untouched in every case.
        """

    def attach(self, runtime: Path) -> Machine | None:
        """The live machine of that directory (adoption after a worker's restart), or None if its process is gone."""
