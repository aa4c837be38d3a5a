"""Run a short program of ours in the guest within one conversation. It is safe to repeat, for a conversation that broke begins again.

What may not be run twice, or takes long, goes through guest_exec.py.
"""

import base64
import time
from collections.abc import Sequence

from workers.machine.driver import MachineError
from workers.machine.qemu.guest_channel import GuestConnection, GuestRefused, NoAnswer
from workers.machine.qemu.guest_exec import stream, whole_number

SHELL = "/usr/lib/keepstate/sh"  # in every image of ours, whatever its own shell is
POLL_SECONDS = 0.004
SAID_BYTES = 1024
SAID_CHARACTERS = 300


def run_program(connection: GuestConnection, path: str, arguments: Sequence[str], deadline: float, *, data: bytes = b"") -> None:
    """The program has ended with exit code 0. `data` is its standard input; `deadline` is monotonic.

    Raises `exec_failed` with what it said (the guest's words, cut and printable), NoAnswer.
    """
    request: dict[str, object] = {"path": path, "arg": list(arguments), "capture-output": True}
    if data:
        request["input-data"] = base64.b64encode(data).decode()
    try:
        status = _ended(connection, connection.request("guest-exec", request, deadline), deadline)
    except GuestRefused as error:
        raise MachineError("exec_failed", f"The guest did not run {path}: {error}.") from error
    code = whole_number(status, "exitcode")
    if code != 0:
        said = stream(status, "err", SAID_BYTES)[0].decode(errors="replace")
        printable = "".join(c for c in said if c.isprintable())[:SAID_CHARACTERS]
        raise MachineError("exec_failed", f"{path} ended with exit code {code} in the guest: {printable or 'it said nothing'}.")


def _ended(connection: GuestConnection, started: object, deadline: float) -> dict[str, object]:
    pid = whole_number(started, "pid") if isinstance(started, dict) else None
    while pid is not None:
        status = connection.request("guest-exec-status", {"pid": pid}, deadline)
        if not isinstance(status, dict):
            break
        if status.get("exited") is True:
            return status
        if time.monotonic() > deadline:
            raise NoAnswer("a program of ours did not end in time")
        time.sleep(POLL_SECONDS)
    raise MachineError("exec_failed", "The guest's account of a program of ours makes no sense.")
