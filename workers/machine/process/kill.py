"""End a hypervisor process for certain, and no other."""

import os
import select
import signal
from pathlib import Path

from workers.machine.driver import MachineError
from workers.machine.process import alive, identity, spawn

KILL_SECONDS = 30.0  # a process in uninterruptible I/O may take this long to go


def kill(runtime: Path, process: identity.ProcessIdentity | None) -> None:
    """SIGKILL the process that holds the alive-lock of `runtime`; return when the lock is free. Idempotent.

    Raises `kill_failed`, having harmed nobody, if the lock is held by a process that is not the recorded one, or if the
    kernel has not let the process go in time.
    """
    if not alive.is_held(runtime):
        if process is not None:
            spawn.reap(process.pid, 0)
        return
    if process is None:
        raise MachineError(
            "kill_failed", f"Something holds {runtime}/alive.lock and no record names it; nothing was killed. Find it with lsof."
        )
    _kill_exactly(runtime, process)
    spawn.reap(process.pid, KILL_SECONDS)
    if not alive.wait_until_free(runtime, KILL_SECONDS):
        raise MachineError(
            "kill_failed", f"Process {process.pid} got SIGKILL and still holds {runtime}/alive.lock after {KILL_SECONDS:.0f} s."
        )


def _kill_exactly(runtime: Path, process: identity.ProcessIdentity) -> None:
    """Signal through a pidfd: between the check and the signal the id cannot come to mean another process."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return  # it has just gone; the lock is about to be free
    try:
        if not identity.is_same(process):
            if alive.wait_until_free(runtime, 1.0):
                return  # it was the machine, and ended while we looked
            raise MachineError("kill_failed", f"Process {process.pid} is not the one that {runtime} recorded; nothing was killed.")
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        ended.poll(KILL_SECONDS * 1000)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)
