"""Set a guest's clock after a resume: it stands where it stood when the machine was saved."""

import time

from workers.machine.driver import MachineError
from workers.machine.qemu.guest_channel import GuestConnection, GuestRefused

TOLERANCE_SECONDS = 5.0


def set_guest_clock(connection: GuestConnection, deadline: float) -> None:
    """The time is taken when the guest is known to listen. Raises `exec_failed` if the clock is then still wrong, NoAnswer.

    The agent sets the clock first and then calls hwclock, whose failure it reports as its own: what counts is the clock itself.
    """
    try:
        connection.request("guest-set-time", {"time": time.time_ns()}, deadline)
    except GuestRefused as error:
        seen = connection.request("guest-get-time", {}, deadline)
        if not isinstance(seen, int) or abs(seen / 1e9 - time.time()) > TOLERANCE_SECONDS:
            raise MachineError("exec_failed", f"The guest answers but its clock could not be set: {error}.") from error
