"""`up`: the whole stack in the foreground until a signal."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace as replace_fields
from pathlib import Path

from keepstate_site.stack import credentials, hosts, keys, processes
from keepstate_site.stack.child import die_with_parent
from keepstate_site.stack.credentials import Logins
from keepstate_site.stack.errors import StackError
from keepstate_site.stack.paths import PROJECT, Paths, replace
from keepstate_site.stack.services import Services, role, started
from keepstate_site.stack.supervisor import Supervisor

PREPARE_SECONDS = 300


def say(text: str) -> None:
    sys.stdout.write(f"keepstate | {text}\n")
    sys.stdout.flush()


def up(options: argparse.Namespace) -> int:
    begun = time.monotonic()
    ids = [] if options.services_only else hosts.ids(options.var, options.hosts)
    with ExitStack() as locks, started(options.var, "up", say, echo=options.logs) as (supervisor, services):
        locks.enter_context(hosts.held(options.var, ids))  # let go only once everything has stopped
        if services.home:
            say(f"database and broker: ready (data in {services.home.data})")
        if options.services_only:
            announce_services(services, options.ready_file)
        else:
            serve(supervisor, replace_fields(services, hosts=len(ids)), options, ids, begun)
        supervisor.run_until(lambda: False)
        say("stopping")
    say("stopped")
    return 0


def serve(supervisor: Supervisor, services: Services, options: argparse.Namespace, ids: Sequence[str], begun: float) -> None:
    keys.ensure(services.paths)  # of a fleet, if this is its first front
    prepare(supervisor, services, options.account)
    listener = processes.listen(options.port)
    if options.fake_provider:
        services = with_fake_provider(supervisor, services)
    say(f"web, beat, control and {'the workers of ' + ', '.join(ids) if ids else 'no host'} are starting")
    supervisor.start([*(spec for one in ids for spec in processes.host(services, one)), processes.control(services)])
    supervisor.start([processes.beat(services), processes.web(services, listener)])
    logins = credentials.kept(services.paths)
    if logins is None:
        raise StackError("Preparing left no login behind. This is a fault of KeepState.")
    facts = {"url": processes.url(listener), "token": logins.token, "account_id": logins.account_id, "pid": os.getpid()}
    facts["fake_provider"] = services.fake_provider or None
    if options.ready_file:
        replace(options.ready_file, json.dumps(facts))
    say(f"ready after {time.monotonic() - begun:.1f} s; logs in {services.paths.logs}; Ctrl-C stops")
    # whoever asked for a ready file reads the token there, and this output is then a log
    for line in welcome(services.paths, processes.url(listener), logins, show=not options.ready_file):
        say(line)


def with_fake_provider(supervisor: Supervisor, services: Services) -> Services:
    """The same with a fake in place of every provider: no model is called, and nothing is paid."""
    listener = processes.listen(0)
    faked = replace_fields(services, fake_provider=processes.url(listener))
    supervisor.start([processes.fake_provider(faked, listener)])
    say(f"FAKE model provider  {faked.fake_provider} answers for every provider; what it was asked: {faked.fake_provider}/fake/bill")
    return faked


def prepare(supervisor: Supervisor, services: Services, account: str) -> None:
    """Run `stack.prepare` to its end, repeating its progress. Raises StackError with what it said if it fails."""
    log = services.paths.logs / "prepare.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "keepstate_site.stack.prepare", "--account", account],
            env=role(services.environment(), "command"),
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509  the supervisor has one thread
        )
        deadline = time.monotonic() + PREPARE_SECONDS
        try:
            while process.poll() is None and time.monotonic() < deadline and not supervisor.signals:
                supervisor.pump(0.1)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        said = "\n".join(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-25:])
        why = "was interrupted" if supervisor.signals else f"failed (code {process.returncode})"
        raise StackError(f"Preparing the database and files {why}; nothing is served. It said:\n{said}")
    say("migrations, static files, guest images, logins: up to date")


def announce_services(services: Services, ready_file: Path | None) -> None:
    env = services.environment()
    say(f"DATABASE_URL={env['DATABASE_URL'] if services.home else '(from the environment)'}")
    say(f"REDIS_URL={env['REDIS_URL'] if services.home else '(from the environment)'}")
    if ready_file:
        replace(ready_file, json.dumps({"url": None, "token": None, "account_id": None, "pid": os.getpid()}))


def welcome(paths: Paths, url: str, logins: Logins, *, show: bool) -> list[str]:
    """Secrets are shown the first time only; `./keepstate up --show-credentials` prints them again."""
    lines = [f"API and its pages   {url}/api/docs", f"admin               {url}/admin/"]
    shown = paths.secrets / "shown"
    marks = f"{logins.username} {logins.account_id}"
    if not show or (shown.exists() and shown.read_text().strip() == marks):
        return [*lines, "login and API token: ./keepstate up --show-credentials"]
    replace(shown, marks)
    return lines + credential_lines(logins)


def credential_lines(logins: Logins) -> list[str]:
    password = logins.password or "(changed since it was made; not kept)"
    return [f"admin login         {logins.username} / {password}", f"API token           {logins.token}"]


def show_credentials(root: Path) -> int:
    paths = Paths(root)
    logins = credentials.kept(paths)
    if logins is None:
        raise StackError(f"{paths.secrets} holds no login yet: `./keepstate up` makes one when it starts.")
    print("\n".join(credential_lines(logins)))
    return 0
