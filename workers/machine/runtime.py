"""The runtime directory of a machine: what lies in it, and how a worker that restarted reads it.

    machine.json      what the machine is; written whole before the process starts and again with its identity
    alive.lock        held by the hypervisor process while it lives (workers/machine/process/alive.py)
    hypervisor.pid    written by the hypervisor itself: names it even if the spawner died before its second write

Nothing here is synced to disk: none of it means anything after the host itself has restarted, for the process is gone then.
"""

import json
import os
import secrets
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.machine.driver import MachineError
from workers.machine.process import alive, identity

RECORD_NAME = "machine.json"
PID_NAME = "hypervisor.pid"
RECORD_LIMIT = 64 * 1024


def write_atomically(path: Path, data: bytes) -> None:
    """Readers see the old bytes or the new ones, never a part."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.write_bytes(data)
    temporary.rename(path)


def write_record(runtime: Path, record: Mapping[str, object]) -> None:
    write_atomically(runtime / RECORD_NAME, json.dumps(dict(record), indent=1).encode())


def read_record(runtime: Path, driver: str) -> dict[str, Any] | None:
    """The record, or None if there is none that this driver wrote."""
    try:
        with open(runtime / RECORD_NAME, "rb") as file:
            record = json.loads(file.read(RECORD_LIMIT))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("driver") == driver else None


def process_of(runtime: Path, record: Mapping[str, object]) -> identity.ProcessIdentity | None:
    """The recorded process, or the one that the hypervisor's own pid file names while the lock is held."""
    recorded = identity.from_record(record.get("process"))
    if recorded is not None:
        return recorded
    pid = identity.pid_from_file(runtime / PID_NAME)  # the hypervisor's own word, which may be a lie
    return identity.identify(pid) if pid is not None and alive.is_held(runtime) and alive.has_open(pid, runtime) else None


def claim(runtime: Path, failure_code: str) -> int:
    """Make the directory, empty it, and return its alive-lock. Raises `failure_code`, touching nothing, if a machine lives there."""
    lock_fd = None
    try:
        runtime.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock_fd = alive.acquire(runtime)
        if lock_fd is not None:
            _empty(runtime)
    except OSError as error:
        if lock_fd is not None:
            os.close(lock_fd)
        raise MachineError(failure_code, f"The runtime directory {runtime} cannot be used: {error}. Nothing was started.") from error
    if lock_fd is None:
        raise MachineError(failure_code, f"A live machine holds {runtime}. Nothing was started; attach to it or kill it first.")
    return lock_fd


def _empty(runtime: Path) -> None:
    """Remove what a dead machine left, all but the lock that we hold."""
    for entry in runtime.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != alive.LOCK_NAME:
            entry.unlink()


def discard(runtime: Path) -> None:
    """Remove the directory of a machine that is gone."""
    shutil.rmtree(runtime, ignore_errors=True)


def connect(runtime: Path, name: str, timeout_seconds: float) -> socket.socket:
    """Connect to a unix socket in the directory, however long the directory's path is (the kernel takes 107 bytes). Raises OSError."""
    directory = os.open(runtime, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_seconds)
        sock.connect(f"/proc/self/fd/{directory}/{name}")
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(directory)
    return sock


def bind(directory: Path, name: str, kind: socket.SocketKind) -> socket.socket:
    """A unix socket in the directory for processes of this user alone, in the place of whatever is there; the path as `connect`'s.

    Prerequisite: a lock says that nobody else serves there. Raises OSError.
    """
    (directory / name).unlink(missing_ok=True)
    held = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, kind)
    try:
        sock.bind(f"/proc/self/fd/{held}/{name}")
        (directory / name).chmod(0o600)
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(held)
    return sock
