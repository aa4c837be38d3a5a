"""What stands in a lazy image's directory, for whoever looks from outside:

    alive.lock     held by the process that serves it while that lives
    daemon.json    which process that is
    status.json    how far it is: {"state": streaming | complete | failed, ...}
    mount/memory   the image

`complete`: every unit has been verified. `failed` has {"reason": integrity | missing | unavailable | no_space | internal, "text", and for
an object that is to blame "kind" and "object"}.
"""

import errno
import json
import os
import secrets
from enum import StrEnum
from pathlib import Path
from typing import Any

from checkpoints_app.store.errors import BackendError, IntegrityError, MissingObjectError
from checkpoints_app.store.names import parse_key
from workers.machine.process import alive, identity

STATUS, DAEMON, MOUNT, IMAGE = "status.json", "daemon.json", "mount", "memory"


class State(StrEnum):
    STREAMING = "streaming"
    COMPLETE = "complete"
    FAILED = "failed"
    LOST = "lost"  # its process is gone: never written, only seen


def write(directory: Path, state: State, **facts: Any) -> None:
    """Atomically. Raises OSError."""
    _put(directory / STATUS, {"state": state, **facts})


def read(directory: Path) -> dict[str, Any]:
    """What was written last, with the state that is true now."""
    try:
        told = json.loads((directory / STATUS).read_text())
    except (OSError, ValueError):
        told = {"state": State.STREAMING}
    if told["state"] != State.FAILED and not alive.is_held(directory):
        return {**told, "state": State.LOST}
    return {**told, "state": State(told["state"])}


def write_process(directory: Path, pid: int) -> None:
    process = identity.identify(pid)
    _put(directory / DAEMON, process.as_record() if process else {})


def process_of(directory: Path) -> identity.ProcessIdentity | None:
    try:
        return identity.from_record(json.loads((directory / DAEMON).read_text()))
    except (OSError, ValueError):
        return None


def why(error: Exception) -> dict[str, str]:
    """The facts of a failure, without any content."""
    if isinstance(error, IntegrityError):
        return {"reason": "integrity", "text": str(error), "kind": error.kind, "object": error.object_id, "about": error.reason}
    if isinstance(error, MissingObjectError):
        name = parse_key(error.key)
        return {"reason": "missing", "text": str(error), "kind": name.word if name else "", "object": error.key}
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return {"reason": "no_space", "text": "this host has no room for the image"}
    if isinstance(error, BackendError):
        return {"reason": error.code, "text": str(error)}
    return {"reason": "internal", "text": type(error).__name__}


def raised(facts: dict[str, Any]) -> Exception | None:
    """The error that the facts of a failure tell of, where content is to blame."""
    if facts.get("reason") == "integrity":
        return IntegrityError(facts["kind"], facts["object"], facts["about"])
    return MissingObjectError(facts["object"]) if facts.get("reason") == "missing" else None


def _put(path: Path, facts: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.write_text(json.dumps(facts))
    os.replace(temporary, path)
