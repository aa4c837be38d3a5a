"""`python -m tests.clients [--json FILE] [--table FILE] [NAME...]`: real clients, cut at every event of an answer, with the relay and not.

For each client, the one answer that it asks for is cut once: its connection to the gateway is reset, or with the relay, the relay's. The
clients are real packages, installed below KEEPSTATE_VAR/clients the first time; they run in a network that has loopback and nothing else.
Prerequisites: root (for that network), node for those of npm. Takes many minutes: CI runs nothing of it but the judge's own test.
"""

import argparse
import json
import logging
import os
import secrets
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from keepstate_site.stack import commands
from keepstate_site.stack.paths import default_root
from tests.clients import table
from tests.clients.clients import CLIENTS
from tests.support.outside_data import remove_below


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of clients' names; none: all of them")
    parser.add_argument("--relay", choices=("with", "without"), help="only so; not given: both")
    parser.add_argument("--json", type=Path, help="write every run to this file, beside what it holds of other clients")
    parser.add_argument("--table", type=Path, help="write the table to this file, from what --json names")
    options = parser.parse_args()
    chosen = [n for n, one in enumerate(CLIENTS) if not options.names or any(name in f"{one.name} {one.version}" for name in options.names)]
    programs = {str(number): str(CLIENTS[number].install(default_root() / "clients")) for number in chosen}
    found = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    with tempfile.TemporaryDirectory(prefix="keepstate-clients-") as directory:
        told = Path(directory) / "told.json"
        facts = json.dumps({"programs": programs, "told": str(told), "relay": options.relay})
        alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        try:
            code = commands.run(Path(directory) / "var", [*alone, sys.executable, "-m", "tests.clients", "inside", facts])
        finally:
            remove_below(Path(directory))
        found |= json.loads(told.read_text()) if told.exists() else {}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.table:
        options.table.write_text(table.text(found))
    return code


def inside(facts: dict[str, object]) -> None:
    """In the stack's environment, in a network with loopback alone."""
    import asyncio

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "keepstate_site.settings")
    django.setup()
    from django.core.management import call_command

    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)

    from sessions_app.models import Account
    from tests.clients.runs import runs_of

    call_command("migrate", interactive=False, verbosity=0)
    found = {}
    programs = facts["programs"]
    assert isinstance(programs, dict)
    for number, program in programs.items():
        client = CLIENTS[int(number)]
        for with_relay in (one for one in (True, False) if facts["relay"] in (None, "with" if one else "without")):
            title = f"{client.name} {client.version} {'with the relay' if with_relay else 'without'}"
            print(title, file=sys.stderr, flush=True)
            account = Account.objects.create(name=f"{title} {secrets.token_hex(4)}")
            try:
                runs = asyncio.run(runs_of(client, Path(program), account, with_relay=with_relay))
            except (OSError, subprocess.SubprocessError) as error:
                print(f"{title}: {error}", file=sys.stderr)
                continue
            found[title] = {"client": client.name, "version": client.version, "relay": with_relay, **asdict(runs), "day": table.today()}
            Path(str(facts["told"])).write_text(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        inside(json.loads(sys.argv[2]))
        raise SystemExit(0)
    raise SystemExit(main())
