"""`host --id NAME`: the worker set of one host in the foreground until a signal, on the servers of a fleet.

Those are the ones that the environment names, or else the stack's that runs on the same root. Whatever is missing is named before
anything is started: a host that works on another database, store or master key than its fleet would lose what it is given.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from keepstate_site.stack import hosts, keys, lock, processes
from keepstate_site.stack import services as found
from keepstate_site.stack.child import Spec
from keepstate_site.stack.errors import REFUSED, Refused, StackError
from keepstate_site.stack.paths import PROJECT, prepare, replace
from keepstate_site.stack.services import Services, role
from keepstate_site.stack.supervisor import Supervisor
from keepstate_site.stack.up import say

SERVERS = ("DATABASE_URL", "REDIS_URL", "CHECKPOINT_STORE_URL")
JOIN_SECONDS = 120


def main(argv: list[str], root: Path) -> int:
    return host(parser(root).parse_args(argv))


def parser(root: Path) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="keepstate host")
    made.add_argument("--id", required=True, help="its name in the fleet: 1 to 40 of a-z, 0-9 and '-'; its machines and cache lie below it")
    made.add_argument("--control", action="store_true", help="also a control worker and beat, of which a fleet needs at least one each")
    made.add_argument("--var", type=Path, default=root, help="the root of all state (default: KEEPSTATE_VAR, else ./var)")
    made.add_argument("--logs", action="store_true", help="print every process's output as well")
    made.add_argument("--ready-file", type=Path, help="written as JSON once its workers take work")
    return made


def host(options: argparse.Namespace) -> int:
    """SIGTERM ends it in order. Its machines run on; the same command takes them up again. Raises StackError, then nothing runs: Refused
    where the id is not this host's to have, or is so no more.
    """
    host_id, begun = hosts.checked(options.id), time.monotonic()
    services = fleet(options.var)
    with hosts.held(options.var, [host_id]):
        join(services, host_id)
        supervisor = Supervisor(services.paths.logs, say, echo=options.logs)
        supervisor.catch_signals()
        try:
            for phase in phases(services, host_id, control=options.control):
                supervisor.start(phase)
            if options.ready_file:
                replace(options.ready_file, json.dumps({"host": host_id, "pid": os.getpid()}))
            say(f"host {host_id} takes work after {time.monotonic() - begun:.1f} s; logs in {services.paths.logs}; Ctrl-C stops")
            supervisor.run_until(lambda: bool(supervisor.refused))
            say("stopping; the machines run on")
        finally:
            supervisor.stop()
    if supervisor.refused:
        raise Refused(f"All that ran for {host_id} but its machines has ended, and is not started again: {supervisor.refused[0]}")
    say("stopped")
    return 0


def phases(services: Services, host_id: str, *, control: bool) -> list[list[Spec]]:
    workers = processes.host(services, host_id)
    if not control:
        return [workers]
    return [[*workers, processes.control(services, host_id)], [processes.beat(services, host_id)]]


def fleet(root: Path) -> Services:
    """The servers to work with. Raises StackError that names what is missing."""
    paths = prepare(root)
    running = lock.holder(paths)
    if running and running["purpose"] == "up":
        return found.find(root)
    missing = [name for name in SERVERS if not os.environ.get(name)]
    if missing:
        raise StackError(
            f"{', '.join(missing)}: not set, and no stack runs on {paths.root} whose servers could be used. Nothing was started. "
            "Set them to the fleet's, or start the stack first: ./keepstate up --hosts 0"
        )
    if not os.environ.get("KEEPSTATE_MASTER_KEY") and not (paths.secrets / "master_key").exists():
        raise StackError(
            f"The fleet's master key is not here: neither KEEPSTATE_MASTER_KEY nor {paths.secrets / 'master_key'}. Nothing was started. "
            "Copy it from a machine of the fleet; a key of its own would open nothing that the others saved."
        )
    keys.ensure(paths)  # of the two only the key that signs pages can be missing now, and no page is served here
    return Services(paths, None)


def join(services: Services, host_id: str) -> None:
    """Have Django look at the servers, the schema, the store and the master key. Raises StackError with what it found wrong."""
    try:
        answer = subprocess.run(
            [sys.executable, "manage.py", "check_fleet"],
            env=role(services.environment(), "command") | {"KEEPSTATE_HOST_ID": host_id},
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=JOIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(
            f"{host_id} could not look at the fleet within {JOIN_SECONDS} s: a server of it, or this machine, is too slow. "
            "Nothing was started. Start it again; `./keepstate doctor` tells which server does not answer."
        ) from error
    if answer.returncode:
        lines = [line for line in (answer.stdout + answer.stderr).splitlines() if line.strip()][-25:]
        said = "\n".join(f"    {line}" for line in lines)
        kind = Refused if answer.returncode == REFUSED else StackError
        raise kind(f"{host_id} cannot join the fleet. Nothing was started. What was found:\n{said}")
