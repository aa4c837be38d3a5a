"""A whole stack as a context manager, for the demo, the benches and integration tests: a subprocess that is stopped at the end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from keepstate_site.stack.child import die_with_parent
from keepstate_site.stack.errors import StackError
from keepstate_site.stack.paths import PROJECT, prepare

START_SECONDS = 300
STOP_SECONDS = 150  # the sum of the stack's own deadlines, and a little
POLL_SECONDS = 0.05
TAIL_BYTES = 4000


@dataclass(frozen=True)
class RunningStack:
    url: str
    token: str
    account_id: str
    pid: int
    root: Path
    fake_provider: str  # its address; empty: there is none


@contextmanager
def running(
    root: Path,
    *,
    account: str = "demo",
    fake_provider: bool = False,
    env: Mapping[str, str] | None = None,
    show: bool = False,
    hosts: int = 1,
) -> Iterator[RunningStack]:
    """Start a stack with `root` as its KEEPSTATE_VAR on any free port; yield once it serves; stop it in order at the end.

    `env` is added to its environment. `show` lets it print; else its output is in `root/log/stack.log`. Raises StackError with that
    output if it does not come up. It also stops if this process dies. Call it from the main thread.
    """
    paths = prepare(root)
    with tempfile.TemporaryDirectory(prefix="keepstate-") as scratch, (paths.logs / "stack.log").open("wb") as log:
        ready_file = Path(scratch) / "ready.json"
        words = ["--var", str(paths.root), "--port", "0", "--ready-file", str(ready_file), "--account", account, "--hosts", str(hosts)]
        process = subprocess.Popen(
            [sys.executable, "-m", "keepstate_site.stack", "up", *words, *(["--fake-provider"] if fake_provider else [])],
            cwd=PROJECT,
            env={**os.environ, **(env or {}), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=None if show else log,
            stderr=None if show else subprocess.STDOUT,
            preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509  a tiny function that takes no lock
        )
        try:
            yield _await_ready(process, ready_file, Path(log.name), paths.root)
        finally:
            _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # the kernel ends its processes with it
        process.wait()


def _await_ready(process: "subprocess.Popen[bytes]", ready_file: Path, log: Path, root: Path) -> RunningStack:
    deadline = time.monotonic() + START_SECONDS
    while not ready_file.exists():
        if process.poll() is not None:
            raise StackError(f"The stack ended with code {process.returncode} before it was ready. It said:\n{_tail(log)}")
        if time.monotonic() > deadline:
            raise StackError(f"The stack was not ready after {START_SECONDS} s. It said:\n{_tail(log)}")
        time.sleep(POLL_SECONDS)
    facts = json.loads(ready_file.read_text())
    return RunningStack(facts["url"], facts["token"], facts["account_id"], facts["pid"], root, facts["fake_provider"] or "")


def _tail(log: Path) -> str:
    return log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
