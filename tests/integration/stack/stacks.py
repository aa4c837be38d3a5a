"""Stacks as processes, seen from outside."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from keepstate_site.stack import services
from keepstate_site.stack.paths import PROJECT
from tests.support.waiting import until, until_gone

ENDS_SECONDS = 90


def clean_environment(**env: str) -> dict[str, str]:
    """Ours, without the servers and settings that the surrounding test run has."""
    ours = (
        "DATABASE_URL",
        "REDIS_URL",
        "CHECKPOINT_STORE_URL",
        "KEEPSTATE_VAR",
        "KEEPSTATE_SECRET_KEY",
        "KEEPSTATE_MASTER_KEY",
        "DJANGO_SETTINGS_MODULE",
    )
    return {name: value for name, value in os.environ.items() if name not in ours} | env


@dataclass(frozen=True)
class Started:
    root: Path
    process: "subprocess.Popen[bytes]"

    def kill(self) -> None:
        """SIGKILL the supervisor; return once everything that it had started is gone too."""
        children = children_of(self.process.pid)
        self.process.kill()
        self.process.wait(10)
        for pid in children.values():
            until_gone(pid, 60)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(ENDS_SECONDS)


@contextmanager
def services_up(root: Path, **env: str) -> Iterator[Started]:
    """PostgreSQL and Redis alone, ready."""
    ready = root / "ready.json"
    ready.unlink(missing_ok=True)
    process = spawn(root, "--ready-file", str(ready), **env)
    try:
        until(lambda: ready.exists() or process.poll() is not None, 120, "the services are ready")
        assert process.poll() is None, (root / "out.log").read_text()
        yield Started(root, process)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(ENDS_SECONDS)


def spawn(root: Path, *arguments: str, **env: str) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "keepstate_site.stack", "up", "--services-only", "--var", str(root), *arguments]
    with (root / "out.log").open("wb") as log:
        return subprocess.Popen(
            argv, cwd=PROJECT, env=clean_environment(**env), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )


def database(root: Path) -> "psycopg.Connection[tuple[object, ...]]":
    home = services.find(root).home
    assert home
    return psycopg.connect(home.database_url, autocommit=True)


def children_of(parent: int) -> dict[str, int]:
    """Command line -> process id of the direct children."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (entry / "status").read_text(), (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if command and f"\nPPid:\t{parent}\n" in status:  # a dead process that nobody has collected has no command line
            found[command.replace(b"\0", b" ").decode().strip()] = int(entry.name)
    return found
