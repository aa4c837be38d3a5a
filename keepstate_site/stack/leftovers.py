"""What a killed stack left behind. The kernel ends its processes with the supervisor, but a server may still be shutting down;
the caller holds the root's lock, so any server found on our own data belongs to nobody."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from keepstate_site.stack.errors import StackError
from keepstate_site.stack.home import Home

WAIT_SECONDS = 45
POLL_SECONDS = 0.1


def clear(home: Home, say: Callable[[str], None]) -> None:
    """Wait for old servers on this data to end, asking them to. Stale files are for the new servers to judge."""
    data = home.data / "postgres" / "data"
    _forget_reused(data / "postmaster.pid", home.sockets / ".s.PGSQL.5432.lock", data)
    _end("postgres", data / "postmaster.pid", data, signal.SIGINT, say)
    _end("redis", home.data / "redis" / "redis.pid", home.data / "redis", signal.SIGTERM, say)


def _forget_reused(pid_file: Path, socket_lock: Path, data: Path) -> None:
    """After a reboot the old server's number may be another process of the same user, for which PostgreSQL would refuse to start.

    Where the number is free, PostgreSQL judges by itself (it also looks for orphaned backends), so nothing is touched.
    """
    for file in (pid_file, socket_lock):
        try:
            pid = int(file.read_text().split("\n", 1)[0])
            os.kill(pid, 0)
        except (OSError, ValueError):
            continue
        if not is_server(pid, data, "postgres"):
            file.unlink(missing_ok=True)


def _end(name: str, pid_file: Path, directory: Path, number: signal.Signals, say: Callable[[str], None]) -> None:
    pid = server_on(pid_file, directory, name)
    if pid is None:
        return
    say(f"a stack that was killed left {name} (process {pid}) behind; waiting for it to end")
    deadline = time.monotonic() + WAIT_SECONDS
    os.kill(pid, number)
    while server_on(pid_file, directory, name) == pid:
        if time.monotonic() > deadline:
            raise StackError(
                f"{name} (process {pid}) of a killed stack did not end within {WAIT_SECONDS} s. Nothing was started. End it, start again."
            )
        time.sleep(POLL_SECONDS)


def server_on(pid_file: Path, directory: Path, name: str) -> int | None:
    """The live server that the pid file names, or None."""
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if is_server(pid, directory, name) else None


def is_server(pid: int, directory: Path, name: str) -> bool:
    """A number alone proves nothing: the process must be that program, working in that directory."""
    try:
        program = Path(f"/proc/{pid}/exe").readlink().name
        works_in = Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return False
    return name in program and works_in == directory.resolve()
