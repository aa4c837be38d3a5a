"""What every program of a guest has in its environment: one file, which the image's wrapper of commands, its terminal and its shells read.

The agent writes it in two exchanges, where a program to write it would take an emulated guest a quarter of a second. The agent makes files
that all may read; the directory is root's alone. It lies in memory, so a resumed machine has it as it was, and a fork has its parent's.
"""

import base64

from workers.machine.driver import MachineError
from workers.machine.qemu.guest_channel import GuestConnection, GuestRefused

PATH = "/run/keepstate/environment"


def give_environment(connection: GuestConnection, text: str, deadline: float) -> None:
    """Safe to repeat. Prerequisite: the connection is synchronised. Raises `exec_failed` without the text, NoAnswer."""
    try:
        handle = connection.request("guest-file-open", {"path": PATH, "mode": "w"}, deadline)
        data = base64.b64encode(text.encode()).decode()
        answers = connection.requests(
            [("guest-file-write", {"handle": handle, "buf-b64": data}), ("guest-file-close", {"handle": handle})], deadline
        )
    except GuestRefused as error:
        answers = [error]
    for answer in answers:
        if isinstance(answer, GuestRefused):
            raise MachineError("exec_failed", f"The guest did not take its environment: {answer}") from answer
