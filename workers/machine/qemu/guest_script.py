"""Run a shell script of ours in the guest, with bytes as its input: what file transfers and the terminal are made of.

The script comes from the host with each call and runs in the busybox of our images, so that a machine which was saved from an older
image, or whose own programs were changed, does the same as any other. It is small and bounds its own output; `timeout` bounds its time.
"""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from workers.machine.driver import MachineError
from workers.machine.qemu.guest_exec import REQUEST_LIMIT, STREAM_LIMIT, carry_out, stream, whole_number
from workers.machine.script import ScriptResult

BUSYBOX = "/usr/lib/keepstate/busybox"
SHELL = "/usr/lib/keepstate/sh"
INPUT_LIMIT = 1024 * 1024
SAID_CHARACTERS = 300


def run_script(
    runtime: Path,
    script: str,
    arguments: Sequence[str],
    data: bytes,
    timeout_seconds: float,
    output_limit: int,
    check_alive: Callable[[], None],
) -> ScriptResult:
    """`RunsScripts.script`. `check_alive` raises `machine_dead` when the guest can no longer answer."""
    size = len(script.encode()) + sum(len(word.encode(errors="replace")) for word in arguments)
    if size > REQUEST_LIMIT or len(data) > INPUT_LIMIT or any("\0" in word for word in arguments) or not 0 < output_limit <= STREAM_LIMIT:
        raise MachineError("exec_failed", "The script, its arguments or its input are not what can be sent; nothing ran.")
    words = ["timeout", "-s", "KILL", str(math.ceil(timeout_seconds)), SHELL, "-c", script, "keepstate", *arguments]
    request: Mapping[str, object] = {"path": BUSYBOX, "arg": words, "capture-output": True}
    if data:
        request = {**request, "input-data": base64.b64encode(data).decode()}
    status, _ = carry_out(runtime, request, timeout_seconds, output_limit, check_alive)
    stdout, cut = stream(status, "out", output_limit)
    if cut:
        raise MachineError("exec_failed", f"The guest answered with more than {output_limit} bytes; its answer was dropped.")
    said = stream(status, "err", 4 * SAID_CHARACTERS)[0].decode(errors="replace")
    return ScriptResult(whole_number(status, "exitcode"), stdout, "".join(c for c in said if c.isprintable())[:SAID_CHARACTERS])
