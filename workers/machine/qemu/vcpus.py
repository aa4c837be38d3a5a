"""Stop the virtual CPUs and let them run; both wait until QEMU says that it is so."""

import time

from workers.machine.driver import Ending, MachineError
from workers.machine.qemu.monitor import Monitor

STATE_SECONDS = 10.0
POLL_SECONDS = 0.002
# The guest shut down, reset or panicked, or its processor cannot go on: QEMU is still there, the machine is not (see -no-shutdown).
ENDED = {
    "shutdown": "the guest shut down or reset itself",
    "guest-panicked": "the guest's kernel panicked",
    "internal-error": "the hypervisor cannot go on with the virtual CPUs",
}
ENDINGS = {
    "shutdown": Ending.GUEST_SHUTDOWN,
    "guest-panicked": Ending.GUEST_PANICKED,
    "internal-error": Ending.HYPERVISOR_ERROR,
}


def stop_vcpus(monitor: Monitor) -> None:
    """Idempotent. Raises `machine_dead` for a guest that has ended, MonitorError, MonitorSilent."""
    monitor.call("stop")
    _wait_until(monitor, running=False)


def run_vcpus(monitor: Monitor) -> None:
    """Idempotent. Raises `machine_dead` for a guest that has ended, MonitorError, MonitorSilent."""
    if monitor.status() not in ENDED:
        monitor.call("cont")
    _wait_until(monitor, running=True)


def _wait_until(monitor: Monitor, running: bool) -> None:
    deadline = time.monotonic() + STATE_SECONDS
    while True:
        status = monitor.status()
        if status in ENDED:
            raise MachineError("machine_dead", f"There is nothing to stop, run or save: {ENDED[status]}.")
        if (status == "running") is running:
            return
        if time.monotonic() > deadline:
            raise MachineError("monitor_silent", f"The machine is still in state {status} after {STATE_SECONDS:.0f} s.")
        time.sleep(POLL_SECONDS)
