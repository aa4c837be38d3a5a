"""Conversations with the guest's agent: tried again while the time lasts.

An attempt is short: a capture, which keeps the channel to itself (nothing may be written into the guest's memory while it is
copied), waits for one attempt only. A new connection wakes an agent that looks ten times a second, so what belongs together is
said in one conversation.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from workers.machine.driver import MachineError
from workers.machine.process import alive
from workers.machine.qemu.guest_channel import GuestConnection, NoAnswer
from workers.machine.qemu.guest_hold import HeldChannel, open_channel

SHORT_ATTEMPT_SECONDS = 1.0
LONG_ATTEMPT_SECONDS = 8.0  # a guest under load may need it; doubled from the short one at each failure
RETRY_SECONDS = 0.02
T = TypeVar("T")


def converse(
    runtime: Path,
    deadline: float,
    work: Callable[[GuestConnection], T],
    between: Callable[[], None] = lambda: None,
    held: HeldChannel | None = None,
) -> T:
    """Connect, synchronise, and return what `work` made of the connection; from the start again if it raised NoAnswer.

    `deadline` is monotonic. `between` runs after each failed attempt and may raise to give up. `held` serves the first attempt and is
    closed. Work that
    must not be repeated turns its NoAnswer into something else. Raises `guest_silent` (no usable answer in time), `machine_dead`, and
    what `work` raises.
    """
    attempt_seconds = SHORT_ATTEMPT_SECONDS
    while True:
        try:
            with held or open_channel(runtime, deadline) as channel:
                connection = GuestConnection(channel.sock)
                connection.synchronise(min(deadline, time.monotonic() + attempt_seconds))
                return work(connection)
        except (NoAnswer, OSError) as error:
            if not alive.is_held(runtime):
                raise MachineError("machine_dead", "The machine's process is gone; the guest cannot answer.") from error
            if time.monotonic() >= deadline:
                raise MachineError("guest_silent", f"The guest did not answer in time ({error}).") from error
        between()
        time.sleep(min(RETRY_SECONDS, max(0.0, deadline - time.monotonic())))
        held, attempt_seconds = None, min(2 * attempt_seconds, LONG_ATTEMPT_SECONDS)
