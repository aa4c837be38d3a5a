"""One stack per root. The kernel holds the lock exactly as long as the supervisor lives; what stands in the file is only for people."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keepstate_site.stack.errors import StackError
from keepstate_site.stack.paths import Paths


@contextmanager
def exclusive(paths: Paths, purpose: str) -> Iterator[None]:
    """Hold the root. `purpose` is `up` (whole stack) or `services` (for one command). Raises StackError if another process holds it."""
    descriptor = os.open(paths.run / "stack.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(descriptor, paths)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "purpose": purpose}).encode())
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, paths: Paths) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if found := holder(paths):
                raise StackError(_refusal(paths, found)) from None
            continue  # someone only looked who holds it, for a moment
        return


def holder(paths: Paths) -> dict[str, Any] | None:
    """Who holds the root now: {"pid", "purpose"}, or None if nobody does."""
    try:
        descriptor = os.open(paths.run / "stack.lock", os.O_RDWR)
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


def _refusal(paths: Paths, found: dict[str, Any]) -> str:
    what = "another command's database and broker" if found["purpose"] == "services" else "another stack"
    return (
        f"{what} runs on {paths.root} (process {found['pid']}). Nothing was started. "
        "Stop it first, or use another directory: KEEPSTATE_VAR=/some/directory."
    )
