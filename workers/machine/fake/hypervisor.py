"""The fake hypervisor's process. Its working directory is the machine's runtime directory; it serves JSON lines on a unix socket there.

Standard library only, so that it starts as fast as Python does.
"""

import base64
import json
import mmap
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from workers.machine.fake.guest import Guest

SOCKET_NAME = "monitor.sock"
GUEST_DIRECTORY = "guest"
PID_NAME = "hypervisor.pid"
REQUEST_LIMIT = 4 * 1024 * 1024


def main(memory_path: str, memory_bytes: int, saved_devices: str | None) -> None:
    """Exit code 1 and a line on standard error if the saved state cannot be loaded. The guest starts stopped."""
    Path(PID_NAME).write_text(str(os.getpid()))
    directory = Path(GUEST_DIRECTORY)
    directory.mkdir()
    fd = os.open(memory_path, os.O_RDONLY)
    guest = Guest(mmap.mmap(fd, memory_bytes, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE), directory)
    if saved_devices is not None:
        try:
            guest.load(Path(saved_devices))
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"the saved state cannot be loaded: {error}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(SOCKET_NAME)
        listener.listen(16)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(guest, connection), daemon=True).start()


def _serve(guest: Guest, connection: socket.socket) -> None:
    with connection, connection.makefile("rwb") as stream:
        line = stream.readline(REQUEST_LIMIT)
        try:
            answer = _answer(guest, json.loads(line))
        except Exception as error:  # the machine goes on whatever was asked of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        try:
            stream.write(json.dumps(answer).encode() + b"\n")
            stream.flush()
        except OSError:
            pass  # the one who asked has gone


def _answer(guest: Guest, request: dict[str, Any]) -> dict[str, Any]:
    match request["command"]:
        case "status":
            return {"running": guest.running, "ticks": guest.ticks()}
        case "stop":
            guest.stop()
        case "run":
            guest.run()
        case "save":
            guest.save(Path(request["path"]))
        case "ping":
            if not guest.running:
                return {"silent": True}
        case "end":
            guest.end_commands()
        case "exec":
            code, out, err = guest.execute(request["argv"], request["seconds"], request["limit"])
            return {"code": code, "out": base64.b64encode(out).decode(), "err": base64.b64encode(err).decode()}
        case unknown:
            return {"error": f"no such command: {unknown}"}
    return {}
