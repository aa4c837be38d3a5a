"""Fresh bytes from the host for a guest's random generator, where the machine has no vmgenid that makes the guest's kernel reseed."""

import secrets

from workers.machine.qemu.guest_channel import GuestConnection
from workers.machine.qemu.guest_program import run_program

PROGRAM = "/usr/lib/keepstate/seed"
SEED_BYTES = 64


def reseed(connection: GuestConnection, deadline: float) -> None:
    """On return the generator draws from what it was given (RNDADDENTROPY, RNDRESEEDCRNG). Raises `exec_failed`, NoAnswer."""
    run_program(connection, PROGRAM, [], deadline, data=secrets.token_bytes(SEED_BYTES))
