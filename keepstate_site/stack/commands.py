"""Run one command in the foreground with a database and a broker: a fleet's, those of the running stack, else started for it alone."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from keepstate_site.stack import lock, services
from keepstate_site.stack.child import die_with_parent
from keepstate_site.stack.paths import PROJECT
from keepstate_site.stack.supervisor import Supervisor


def run(root: Path, argv: Sequence[str], *, lasting: bool = True) -> int:
    """The command's exit code. It sees DATABASE_URL, REDIS_URL and KEEPSTATE_VAR of that root.

    Without `lasting`, the root's database waits for no disk: for data that is worth nothing once the command has ended.
    """
    found = services.find(root)
    held = lock.holder(found.paths)
    if found.home is None or (held and held["purpose"] == "up"):  # nothing is to be started for it
        return subprocess.run(list(argv), env=found.environment(), cwd=PROJECT, check=False).returncode
    with services.started(root, "services", _note, lasting=lasting) as (supervisor, mine):
        return foreground(supervisor, argv, mine.environment())


def foreground(supervisor: Supervisor, argv: Sequence[str], env: Mapping[str, str]) -> int:
    """The terminal stays the command's: Ctrl-C reaches it directly, and a signal to us is passed on and waited for."""
    death = die_with_parent(signal.SIGTERM)
    process = subprocess.Popen(list(argv), env=dict(env), cwd=PROJECT, preexec_fn=death)  # noqa: PLW1509  one thread
    passed = 0
    try:
        while process.poll() is None:
            supervisor.run_until(lambda: process.poll() is not None)
            if supervisor.signals > passed:
                passed = supervisor.signals
                process.terminate()
            supervisor.pump(0.1)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _note(text: str) -> None:
    sys.stderr.write(f"keepstate | {text}\n")
