"""One request to the fake hypervisor, and its answer."""

import json
from pathlib import Path
from typing import Any

from workers.machine.driver import MachineError
from workers.machine.fake.hypervisor import SOCKET_NAME
from workers.machine.process import alive
from workers.machine.runtime import connect

CALL_SECONDS = 15.0


class NoReply(Exception):
    """The answer did not come in time."""


def call(runtime: Path, command: str, timeout_seconds: float = CALL_SECONDS, **arguments: object) -> dict[str, Any]:
    """Raises `machine_dead` if the process is gone, `monitor_silent` if it refused, NoReply if it did not answer in time."""
    try:
        with connect(runtime, SOCKET_NAME, timeout_seconds) as sock, sock.makefile("rwb") as stream:
            stream.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
            stream.flush()
            answer: dict[str, Any] = json.loads(stream.readline() or b'{"error": "the connection was closed"}')
    except TimeoutError as error:
        raise NoReply(f"no answer to {command} within {timeout_seconds} s") from error
    except OSError as error:
        answer = {"error": str(error)}
    if "error" in answer:
        if not alive.is_held(runtime):
            raise MachineError("machine_dead", "The machine's process is gone.")
        raise MachineError("monitor_silent", f"The fake hypervisor did not carry out {command}: {answer['error']}")
    return answer
