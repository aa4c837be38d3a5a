"""Give a guest an identity of its own, where its memory is that of another session: machine id and host name.

The agent writes the files itself, in two exchanges: a program that it had to start would take an emulated guest a quarter of a second. Only
files that are there are written so, for the agent makes new ones that all may write; a script makes what is missing. Nothing of it is the
guest's, so a machine that was saved from an older image gets its identity too. What cannot be changed from outside stays what it was:
docs/limits.md.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.machine.driver import GuestIdentity, MachineError
from workers.machine.qemu.guest_channel import GuestConnection, GuestRefused
from workers.machine.qemu.guest_program import SHELL, run_program

KERNELS_NAME, MACHINE_ID, HOST_NAME = "/proc/sys/kernel/hostname", "/etc/machine-id", "/etc/hostname"
HOSTS, DBUS_MACHINE_ID = "/etc/hosts", "/var/lib/dbus/machine-id"  # may be missing; the second is often a link to the first
OLD_BYTES = 256  # of a file's old content, to see whether the new one covers it

EMPTIED = r"""
set -e
umask 022
mkdir -p /etc
: >/etc/machine-id
: >/etc/hostname
if [ -f /var/lib/dbus/machine-id ]; then : >/var/lib/dbus/machine-id; fi
"""

_Commands = list[tuple[str, Mapping[str, object]]]


@dataclass(frozen=True)
class _File:
    path: str
    text: str
    required: bool = True
    appended: bool = False

    def commands(self, handle: object) -> _Commands:
        """What it was, then what it is to be. A close flushes, so a full disk is told by it."""
        seek: Mapping[str, object] = {"handle": handle, "offset": 0, "whence": "end" if self.appended else "set"}
        text = base64.b64encode(self.text.encode()).decode()
        return [
            ("guest-file-read", {"handle": handle, "count": OLD_BYTES}),
            ("guest-file-seek", seek),
            ("guest-file-write", {"handle": handle, "buf-b64": text}),
            ("guest-file-close", {"handle": handle}),
        ]

    def covers(self, old: object) -> bool:
        """Whether nothing is left behind the new text of what was there."""
        if self.appended or self.path == KERNELS_NAME:
            return True
        try:
            return isinstance(old, dict) and len(base64.b64decode(str(old.get("buf-b64")))) <= len(self.text)
        except (binascii.Error, ValueError):
            return False


def give_identity(connection: GuestConnection, identity: GuestIdentity, deadline: float) -> None:
    """Prerequisite: the connection is synchronised. Safe to repeat, but for another line in /etc/hosts. A machine that ends in between was
    never running: what is written by half goes with it. Raises `exec_failed`, NoAnswer.
    """
    files = [
        _File(KERNELS_NAME, identity.hostname),
        _File(MACHINE_ID, f"{identity.machine_id}\n"),
        _File(HOST_NAME, f"{identity.hostname}\n"),
        _File(DBUS_MACHINE_ID, f"{identity.machine_id}\n", required=False),
        _File(HOSTS, f"127.0.0.1 {identity.hostname}\n", required=False, appended=True),
    ]
    try:
        if not _written(connection, files, deadline):
            run_program(connection, SHELL, ["-c", EMPTIED], deadline)
            if not _written(connection, files[:-1], deadline):  # the line in /etc/hosts stands already
                raise MachineError("exec_failed", "a file is missing, or is not what was written.")
    except (MachineError, GuestRefused) as error:
        code = error.code if isinstance(error, MachineError) else "exec_failed"
        raise MachineError(code, f"The guest did not take its identity: {error}") from error


def _written(connection: GuestConnection, files: Sequence[_File], deadline: float) -> bool:
    """False if a required file is not there, or had more in it than was written over. No file stays open. Raises GuestRefused."""
    handles = connection.requests([("guest-file-open", {"path": file.path, "mode": "r+"}) for file in files], deadline)
    opened = [(file, handle) for file, handle in zip(files, handles, strict=True) if not isinstance(handle, GuestRefused)]
    answers = connection.requests([command for file, handle in opened for command in file.commands(handle)], deadline)
    for answer in answers:
        if isinstance(answer, GuestRefused):
            raise answer
    covered = all(file.covers(answers[4 * index]) for index, (file, _) in enumerate(opened))
    return covered and {file.path for file, _ in opened} >= {file.path for file in files if file.required}
