"""Bring database, static files, images and logins up to date: `python -m keepstate_site.stack.prepare [--account NAME]`.

One process for all of it, since each start of Django costs about as much as the work. Prints one step per line and ends with a JSON
line {"admin","account"}; every step is idempotent, so a death in the middle is repaired by the next start.
"""

import argparse
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

from keepstate_site.stack import credentials
from keepstate_site.stack.paths import Paths


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--account", default="demo")
    account = parser.parse_args().account
    django.setup()
    paths = Paths(settings.KEEPSTATE_VAR)
    print("database: migrations", flush=True)
    call_command("migrate", interactive=False, verbosity=0)
    print("static files", flush=True)
    collect_static(settings.STATIC_ROOT)
    print("guest images", flush=True)
    call_command("register_images", verbosity=0)
    print("logins", flush=True)
    admin = admin_login(paths)
    print(json.dumps({"admin": admin["username"], "account": api_token(paths, account)["account_id"]}), flush=True)


def collect_static(target: Path) -> None:
    """Copies and compresses about a thousand files, so it is skipped where their names, sizes and times are those of the last run."""
    stamp = target / ".collected"
    now = _fingerprint()
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


def admin_login(paths: Paths) -> dict[str, Any]:
    """The kept login while it works; a new database, or a password that was changed by hand, gets a new file."""
    from django.contrib.auth import authenticate

    known = credentials.kept(paths, credentials.ADMIN)
    if known and known.get("password") and authenticate(username=known["username"], password=known["password"]):
        return known
    made = ask("ensure_admin")
    if made.get("password"):
        credentials.keep(paths, credentials.ADMIN, made)
    return made


def api_token(paths: Paths, account: str) -> dict[str, Any]:
    """The kept token while the database still honours it."""
    from sessions_app.errors import Unauthenticated
    from sessions_app.services import token as tokens

    known = credentials.kept(paths, credentials.TOKEN)
    if known and known.get("name") == account:
        try:
            tokens.authenticate(known["token"])
        except Unauthenticated:
            pass
        else:
            return known
    made = {"name": account, **ask("ensure_account", account, "--json")}
    credentials.keep(paths, credentials.TOKEN, made)
    return made


def ask(command: str, *arguments: str) -> dict[str, Any]:
    """Run one of our commands that answers one JSON object on standard output."""
    answer = io.StringIO()
    call_command(command, *arguments, stdout=answer)
    return dict(json.loads(answer.getvalue()))


if __name__ == "__main__":
    main()
