"""Bring database, static files, images and logins up to date: `python -m keepstate_site.stack.prepare [--account NAME]`.

One process for all of it, since each start of Django costs about as much as the work. Prints one step per line; every step is
idempotent, so a death in the middle is repaired by the next start.
"""

import argparse
import fcntl
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

from keepstate_site.stack import credentials
from keepstate_site.stack.paths import Paths

#: Less than the stack gives all of this (up.PREPARE_SECONDS): a migration that finds its tables in use for longer is told as such.
MIGRATE_SECONDS = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--account", default="demo")
    account = parser.parse_args().account
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "keepstate_site.settings")  # a unit or a container starts it by itself
    django.setup()
    paths = Paths(settings.KEEPSTATE_VAR)
    print("database: migrations", flush=True)
    call_command("migrate", interactive=False, verbosity=0, patience=MIGRATE_SECONDS)
    print("checks", flush=True)
    call_command("check")
    print("static files", flush=True)
    collect_static(settings.STATIC_ROOT)
    print("guest images", flush=True)
    call_command("register_images", verbosity=0)
    print("logins", flush=True)
    admin = ask("ensure_admin", "--password-file", paths.secrets / credentials.PASSWORD_FILE)
    made = ask("ensure_account", account, "--token-file", paths.secrets / credentials.TOKEN_FILE)
    credentials.keep(paths, credentials.Logins(admin["username"], admin["password"], made["account_id"], made["token"]))


def collect_static(target: Path) -> None:
    """Copies and compresses about a thousand files, so it is skipped where their names, sizes and times are those of the last run.

    Under a lock, for stacks may share the directory.
    """
    target.mkdir(parents=True, exist_ok=True)
    stamp = target.with_name(f"{target.name}.collected")  # beside it: collecting clears the directory
    now = _fingerprint()
    with open(target.with_name(f"{target.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == now:
            return
        stamp.unlink(missing_ok=True)
        call_command("collectstatic", interactive=False, verbosity=0, clear=True)
        stamp.write_text(now)


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            facts = Path(storage.path(path)).stat()
            digest.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def ask(command: str, *arguments: str | Path) -> dict[str, Any]:
    """Run one of our commands that answers one JSON object on standard output."""
    answer = io.StringIO()
    call_command(command, *map(str, arguments), stdout=answer)
    return dict(json.loads(answer.getvalue()))


if __name__ == "__main__":
    main()
