"""One stack per root, and one worker set per root and host id. The kernel holds the lock exactly as long as the supervisor lives; what
stands in the file is only for people.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keepstate_site.stack.errors import StackError
from keepstate_site.stack.paths import Paths

STACK = "stack"


def of_host(host_id: str) -> str:
    return f"host-{host_id}"


@contextmanager
def exclusive(paths: Paths, purpose: str, name: str = STACK) -> Iterator[None]:
    """Hold the root, or by another `name` a part of it. `purpose` is `up` (whole stack), `services` (for one command) or `host`.

    Raises StackError if another process holds it.
    """
    descriptor = os.open(_file(paths, name), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(descriptor, paths, name)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "purpose": purpose}).encode())
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, paths: Paths, name: str) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if found := holder(paths, name):
                raise StackError(_refusal(paths, name, found)) from None
            continue  # someone only looked who holds it, for a moment
        return


def holder(paths: Paths, name: str = STACK) -> dict[str, Any] | None:
    """Who holds it now: {"pid", "purpose"}, or None if nobody does."""
    try:
        descriptor = os.open(_file(paths, name), os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(descriptor, 4096)
        return dict(json.loads(text)) if text else {"pid": None, "purpose": "unknown"}
    finally:
        os.close(descriptor)
    return None


def _file(paths: Paths, name: str) -> Path:
    return paths.run / f"{name}.lock"


def _refusal(paths: Paths, name: str, found: dict[str, Any]) -> str:
    if name != STACK:
        return (
            f"The workers of {name.removeprefix('host-')} run on {paths.root} already (process {found['pid']}). Nothing was started. "
            "Stop them first, or give this host another id."
        )
    what = "another command's database and broker" if found["purpose"] == "services" else "another stack"
    return (
        f"{what} runs on {paths.root} (process {found['pid']}). Nothing was started. "
        "Stop it first, or use another directory: KEEPSTATE_VAR=/some/directory."
    )
