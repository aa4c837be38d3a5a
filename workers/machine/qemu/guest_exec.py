"""Run a command in the guest through the wrapper of our images, which bounds its time and output where they arise."""

import base64
import binascii
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workers.machine.driver import ExecResult, MachineError, never
from workers.machine.qemu.guest import converse
from workers.machine.qemu.guest_channel import GuestConnection, GuestRefused, NoAnswer

WRAPPER = "/usr/lib/keepstate/exec"
WRAPPER_TIMED_OUT = 124
WRAPPER_ENDED = 143  # it was sent TERM, and has killed its command
SHELL = "/usr/lib/keepstate/sh"
GRACE_SECONDS = 15.0  # beyond the wrapper's own bound: it gives the command 2 s to end, and an emulated guest is slow
POLLING_SECONDS = 0.25  # within one conversation
POLL_SECONDS = 0.005
FIRST_PAUSE_SECONDS = 0.05
LAST_PAUSE_SECONDS = 0.5
REQUEST_LIMIT = 1024 * 1024
STREAM_LIMIT = 8 * 1024 * 1024  # qemu-ga itself keeps 16 MiB of each stream


def execute(
    runtime: Path,
    argv: Sequence[str],
    timeout_seconds: float,
    output_limit: int,
    check_alive: Callable[[], None],
    cancelled: Callable[[], bool] = never,
) -> ExecResult:
    """The contract's `exec`. `check_alive` raises `machine_dead` when the guest can no longer answer."""
    _check(argv, timeout_seconds, output_limit)
    request: Mapping[str, object] = {
        "path": WRAPPER, "arg": [str(math.ceil(timeout_seconds)), str(output_limit), *argv], "capture-output": True,
    }  # fmt: skip
    status, duration = carry_out(runtime, request, timeout_seconds, output_limit, check_alive, cancelled)
    result = _result(status, duration, timeout_seconds, output_limit)
    return replace(result, cancelled=True) if cancelled() and result.exit_code == WRAPPER_ENDED else result


def carry_out(
    runtime: Path,
    request: Mapping[str, object],
    timeout_seconds: float,
    output_limit: int,
    check_alive: Callable[[], None],
    cancelled: Callable[[], bool] = never,
) -> tuple[Mapping[str, object], float]:
    """Start a program by the agent's `guest-exec`, once, and return its final status and how long it took.

    What bounds the program's time in the guest is the caller's; here it is waited for a little longer. Raises `exec_failed`,
    `guest_silent`, `machine_dead`. Once `cancelled` says so the program is sent TERM, and is waited for as before.
    """
    began = time.monotonic()
    deadline = began + timeout_seconds + GRACE_SECONDS
    response_limit = 3 * (output_limit + 1) + 64 * 1024  # two streams in base64, and the rest
    started: list[int] = []

    def start_and_poll(connection: GuestConnection) -> Mapping[str, object] | None:
        if not started:
            started.append(_start(connection, request, deadline))
        return _poll(connection, started[0], deadline, response_limit)

    status, ended = converse(runtime, deadline, start_and_poll, check_alive), False
    pause = FIRST_PAUSE_SECONDS
    while status is None:
        if time.monotonic() + pause > deadline:
            raise MachineError("guest_silent", "The guest did not end the command after its time was over; it may still run.")
        time.sleep(pause)
        pause = min(1.5 * pause, LAST_PAUSE_SECONDS)
        if cancelled() and not ended:
            ended = True
            converse(runtime, deadline, lambda connection: _end(connection, started[0], deadline), check_alive)
        status = converse(runtime, deadline, start_and_poll, check_alive)
    return status, time.monotonic() - began


def _result(status: Mapping[str, object], duration: float, timeout_seconds: float, output_limit: int) -> ExecResult:
    stdout, stdout_cut = stream(status, "out", output_limit)
    stderr, stderr_cut = stream(status, "err", output_limit)
    code = whole_number(status, "exitcode")
    timed_out = code == WRAPPER_TIMED_OUT and duration >= timeout_seconds  # a command may exit with 124 of its own accord
    return ExecResult(None if timed_out else code, stdout, stderr, stdout_cut or stderr_cut, timed_out, duration)


def _check(argv: Sequence[str], timeout_seconds: float, output_limit: int) -> None:
    size = sum(len(word.encode(errors="replace")) for word in argv)
    if not argv or any("\0" in word for word in argv) or size > REQUEST_LIMIT:
        raise MachineError("exec_failed", f"A command is a program and its arguments, no NUL, at most {REQUEST_LIMIT} bytes; nothing ran.")
    if not 0 < output_limit <= STREAM_LIMIT or not 0 < timeout_seconds < 1_000_000:
        raise MachineError("exec_failed", f"The output limit must be 1 .. {STREAM_LIMIT} bytes and the time limit positive; nothing ran.")


def _start(connection: GuestConnection, request: Mapping[str, object], deadline: float) -> int:
    """Never sent twice: without an answer nobody knows whether the command runs."""
    try:
        answer = connection.request("guest-exec", request, deadline)
    except GuestRefused as error:
        raise MachineError("exec_failed", f"The guest refused to start the command: {error}. Nothing ran.") from error
    except NoAnswer as error:
        raise MachineError("guest_silent", f"The guest took the command and did not answer ({error}); it may have run.") from error
    pid = whole_number(answer, "pid") if isinstance(answer, dict) else None
    if pid is None:
        raise MachineError("exec_failed", "The guest's answer to the start of the command makes no sense; whether it ran is not known.")
    return pid


def _end(connection: GuestConnection, pid: int, deadline: float) -> None:
    """TERM to a program of ours that was started here; the wrapper then kills its command. What it has left behind by then stays."""
    try:
        connection.request("guest-exec", {"path": SHELL, "arg": ["-c", f"kill -s TERM {pid}"]}, deadline)
    except GuestRefused:
        pass  # it runs on until its time is over


def _poll(connection: GuestConnection, pid: int, deadline: float, response_limit: int) -> Mapping[str, object] | None:
    """The final status, or None if the command still runs after a moment: then the channel is free for pings and captures for a while."""
    moment = time.monotonic() + POLLING_SECONDS
    while True:
        try:
            status = connection.request("guest-exec-status", {"pid": pid}, deadline, response_limit)
        except GuestRefused as error:
            raise MachineError("exec_failed", f"The guest lost sight of the command ({error}); it may still run.") from error
        if not isinstance(status, dict) or not isinstance(status.get("exited"), bool):
            raise MachineError("exec_failed", "The guest's answer about a running command makes no sense; whether it ended is not known.")
        if status["exited"]:
            return status
        if time.monotonic() > moment:
            return None
        time.sleep(POLL_SECONDS)


def stream(status: Mapping[str, object], name: str, limit: int) -> tuple[bytes, bool]:
    """One stream, cut at the limit, and whether it was cut."""
    encoded = status.get(f"{name}-data", "")
    try:
        data = base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else None
    except (binascii.Error, ValueError):
        data = None
    if data is None:
        raise MachineError("exec_failed", "The guest's account of the command's output is not base64; the command has ended.")
    return data[:limit], len(data) > limit or status.get(f"{name}-truncated") is True


def whole_number(answer: Mapping[str, object], name: str) -> int | None:
    value = answer.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31 else None
