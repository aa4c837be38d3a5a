"""Give a guest an identity of its own, where its memory is that of another session: machine id and host name.

The agent writes the files itself: a program that it had to start would take an emulated guest a quarter of a second. A file that is not
there is made by a script, with the access that it should have. Both come from the host, so a machine that was saved from an older image
gets its identity too. What cannot be changed from outside stays what it was: docs/limits.md.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from workers.machine.driver import GuestIdentity, MachineError
from workers.machine.qemu.guest_channel import GuestConnection, GuestRefused
from workers.machine.qemu.guest_program import SHELL, run_program

KERNELS_NAME, MACHINE_ID, HOST_NAME = "/proc/sys/kernel/hostname", "/etc/machine-id", "/etc/hostname"
HOSTS, DBUS_MACHINE_ID = "/etc/hosts", "/var/lib/dbus/machine-id"  # may be missing; the second is often a link to the first
REQUIRED = (KERNELS_NAME, MACHINE_ID, HOST_NAME)

MAKE_MISSING = r"""
set -e
umask 022
mkdir -p /etc
for file in /etc/machine-id /etc/hostname; do [ -e "$file" ] || : >"$file"; done
"""


@dataclass(frozen=True)
class _Write:
    path: str
    mode: str  # fopen's
    text: str


def give_identity(connection: GuestConnection, identity: GuestIdentity, deadline: float) -> None:
    """Prerequisite: the connection is synchronised. Safe to repeat, but for a second line in /etc/hosts. A machine that ends in between
    was never running: what is written by half goes with it. Raises `exec_failed`, NoAnswer.
    """
    try:
        there = _existing(connection, (*REQUIRED, HOSTS, DBUS_MACHINE_ID), deadline)
        if not there.issuperset(REQUIRED):
            run_program(connection, SHELL, ["-c", MAKE_MISSING], deadline)
        _write(connection, [write for write in _writes(identity) if write.path in there.union(REQUIRED)], deadline)
    except (MachineError, GuestRefused) as error:
        code = error.code if isinstance(error, MachineError) else "exec_failed"
        raise MachineError(code, f"The guest did not take its identity: {error}") from error


def _writes(identity: GuestIdentity) -> list[_Write]:
    return [
        _Write(KERNELS_NAME, "w", identity.hostname),
        _Write(MACHINE_ID, "w", f"{identity.machine_id}\n"),
        _Write(HOST_NAME, "w", f"{identity.hostname}\n"),
        _Write(HOSTS, "a", f"127.0.0.1 {identity.hostname}\n"),
        _Write(DBUS_MACHINE_ID, "w", f"{identity.machine_id}\n"),
    ]


def _existing(connection: GuestConnection, paths: Sequence[str], deadline: float) -> set[str]:
    answers = connection.requests([("guest-file-open", {"path": path, "mode": "r"}) for path in paths], deadline)
    opened = {path: answer for path, answer in zip(paths, answers, strict=True) if not isinstance(answer, GuestRefused)}
    connection.requests([("guest-file-close", {"handle": handle}) for handle in opened.values()], deadline)
    return set(opened)


def _write(connection: GuestConnection, writes: Sequence[_Write], deadline: float) -> None:
    """A close flushes, so a full disk is told by it. Raises GuestRefused for the first that did not succeed; none stays open."""
    handles = connection.requests([("guest-file-open", {"path": write.path, "mode": write.mode}) for write in writes], deadline)
    commands: list[tuple[str, dict[str, object]]] = []
    for write, handle in zip(writes, handles, strict=True):
        if not isinstance(handle, GuestRefused):
            text = base64.b64encode(write.text.encode()).decode()
            commands += [("guest-file-write", {"handle": handle, "buf-b64": text}), ("guest-file-close", {"handle": handle})]
    for answer in [*handles, *connection.requests(commands, deadline)]:
        if isinstance(answer, GuestRefused):
            raise answer
