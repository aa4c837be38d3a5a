"""Hold a guest's programs still across a save, on machines whose generator nobody reseeds by itself (no vmgenid).

They are frozen before the stopped window and go on after the greeting of the resume has reseeded, or right after a live save. So no program
of a resumed machine draws a number from the state that was saved. The agent and PID 1, which must answer, are not frozen.

A guest that does not answer, or whose processors were stopped, is saved as it is: its programs run for a moment before the greeting. The
marker in the runtime directory tells whoever comes after a death that the programs have to be set going again.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.machine.driver import MachineError
from workers.machine.qemu.guest_channel import GuestConnection, NoAnswer
from workers.machine.qemu.guest_program import SHELL, run_program
from workers.machine.qemu.monitor import Monitor

MARKER = "frozen"
FREEZE_SECONDS = 20.0

#: Every process that is no kernel thread, not PID 1, not the agent and not this shell goes into one control group, until a look finds no
#: more; then the group is frozen. What its members start is born in it.
FREEZE = r"""
set -e
mount=/run/keepstate/cgroup group=/run/keepstate/cgroup/session
mkdir -p "$mount"
[ -e "$mount/cgroup.procs" ] || mount -t cgroup2 none "$mount"
mkdir -p "$group"
rounds=0
while :; do
    moved=
    for process in /proc/[0-9]*; do
        pid=${process#/proc/}
        case $pid in 1 | $$ | $PPID) continue ;; esac
        [ -e "$process/exe" ] && read -r where <"$process/cgroup" || continue
        case $where in 0::/session*) continue ;; esac
        if echo "$pid" >"$group/cgroup.procs"; then moved=1; fi
    done 2>/dev/null
    [ -n "$moved" ] || break
    rounds=$((rounds + 1))
    [ $rounds -lt 50 ] || { echo "processes appear faster than they can be held" >&2; exit 1; }
done
echo 1 >"$group/cgroup.freeze"
tries=0
until grep -q '^frozen 1' "$group/cgroup.events"; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || { echo 0 >"$group/cgroup.freeze"; echo "a process does not come to rest" >&2; exit 1; }
    sleep 0.01
done
"""
#: With an argument, only programs that are frozen are set going: those of a clone must not have run.
THAW = r"""
group=/run/keepstate/cgroup/session
if [ -n "$1" ] && ! grep -qs '^frozen 1' "$group/cgroup.events"; then
    echo "its programs were not held at the save and have run on from what another machine drew" >&2
    exit 3
fi
[ ! -e "$group/cgroup.freeze" ] || echo 0 >"$group/cgroup.freeze"
"""


@contextmanager
def held_still(monitor: Monitor, runtime: Path, connection: GuestConnection | None) -> Iterator[None]:
    """Prerequisite: the connection is synchronised and nobody else talks on it; None for a guest that is saved as it is.

    On leaving, programs go on if the processors do; else they stay frozen for the resume, or for `set_going`. Raises `capture_failed`.
    """
    if connection is None:
        yield
        return
    (runtime / MARKER).touch()
    try:
        run_program(connection, SHELL, ["-c", FREEZE], time.monotonic() + FREEZE_SECONDS)
        yield
    except NoAnswer as error:
        raise MachineError("capture_failed", f"The guest's programs could not be held still: {error}. Nothing was saved.") from error
    finally:
        if monitor.status() == "running":
            _set_going_after_a_save(runtime, connection)


def _set_going_after_a_save(runtime: Path, connection: GuestConnection) -> None:
    try:
        set_going(runtime, connection, time.monotonic() + FREEZE_SECONDS)
    except (MachineError, NoAnswer) as error:
        raise MachineError("capture_failed", f"The guest's programs could not be set going after the save: {error}") from error


def set_going(runtime: Path, connection: GuestConnection, deadline: float, *, only_frozen: bool = False) -> None:
    """Idempotent; harmless for a guest that was never frozen, unless `only_frozen`: then `exec_failed`. Raises NoAnswer too."""
    run_program(connection, SHELL, ["-c", THAW, "keepstate", "1" if only_frozen else ""], deadline)
    (runtime / MARKER).unlink(missing_ok=True)


def is_marked(runtime: Path) -> bool:
    """Whether a save may have left the programs of this machine frozen."""
    return (runtime / MARKER).exists()
