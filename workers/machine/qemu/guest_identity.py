"""Give a guest an identity of its own, where its memory is that of another session: machine id and host name.

The script comes from the host and runs in the shell of our images, so a machine that was saved from an older image gets its identity too.
What cannot be changed from outside stays what it was: docs/limits.md.
"""

from workers.machine.driver import GuestIdentity, MachineError
from workers.machine.qemu.guest_channel import GuestConnection
from workers.machine.qemu.guest_program import SHELL, run_program

SCRIPT = r"""
set -e
umask 022
replace() { # FILE TEXT: by its old content or by its new, never by half; and it says so afterwards
    printf '%s\n' "$2" >"$1.keepstate"
    mv -f "$1.keepstate" "$1"
    read -r now <"$1"
    [ "$now" = "$2" ] || { echo "$1 is not what was written" >&2; exit 1; }
}
printf '%s' "$2" >/proc/sys/kernel/hostname
mkdir -p /etc
replace /etc/machine-id "$1"
replace /etc/hostname "$2"
if [ -f /etc/hosts ]; then printf '127.0.0.1 %s\n' "$2" >>/etc/hosts; fi
if [ -f /var/lib/dbus/machine-id ] && [ ! -L /var/lib/dbus/machine-id ]; then replace /var/lib/dbus/machine-id "$1"; fi
"""


def give_identity(connection: GuestConnection, identity: GuestIdentity, deadline: float) -> None:
    """Prerequisite: the connection is synchronised. Safe to repeat. Raises `exec_failed`, NoAnswer."""
    try:
        run_program(connection, SHELL, ["-c", SCRIPT, "keepstate", identity.machine_id, identity.hostname], deadline)
    except MachineError as error:
        raise MachineError(error.code, f"The guest did not take its identity: {error}") from error
