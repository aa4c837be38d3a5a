"""Write a guest's file in bounded pieces: into a temporary file beside it, which gets the name once it is whole.

Each step may be repeated, and none depends on what the host remembers: a worker that dies leaves a temporary file, which the next transfer
into that directory removes an hour later.
"""

import re

from sessions_app.services.guest_files import Target, Written
from workers.files import scripts
from workers.files.refusal import FileRefused
from workers.machine.script import RunsScripts

TEMPORARY_PREFIX = ".keepstate-put-"
TEMPORARY = re.compile(rf"{re.escape(TEMPORARY_PREFIX)}[0-9a-f]{{32}}")


def begin(machine: RunsScripts, target: Target) -> None:
    """Raises FileRefused (then nothing was made), MachineError."""
    step(machine, "begin", target, [])


def put(machine: RunsScripts, target: Target, offset: int, data: bytes) -> None:
    """Prerequisite: all before `offset` was put. Raises FileRefused, MachineError."""
    step(machine, "put", target, [str(offset), str(len(data))], data=data)


def commit(machine: RunsScripts, target: Target, size: int, sha256: str, mode: int | None) -> Written:
    """On success the file has its name and is on the guest's disk. On failure the file that had the name is as it was."""
    arguments = [str(size), sha256, "" if mode is None else f"{mode:o}"]
    output = step(machine, "commit", target, arguments, seconds=scripts.HASH_SECONDS)
    _inode, found, mtime, _ctime, bits = scripts.numbers(output.strip(), 5)
    return Written(found, mtime, bits & 0o7777)


def abort(machine: RunsScripts, target: Target) -> None:
    step(machine, "abort", target, [])


def step(machine: RunsScripts, name: str, target: Target, more: list[str], *, data: bytes = b"", seconds: float = scripts.SECONDS) -> bytes:
    """One script of those that write, with what it prints."""
    if not TEMPORARY.fullmatch(target.temporary) or not target.name or "/" in target.name:
        raise FileRefused("failed", "This is not the target of a transfer; nothing was written.")
    arguments = [target.name, target.temporary, "new" if target.only_new else "-", *more]
    return scripts.run(machine, ["target", name], target.directory, arguments, data=data, output_limit=1024, seconds=seconds)
