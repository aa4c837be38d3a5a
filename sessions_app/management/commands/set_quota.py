"""`manage.py set_quota ACCOUNT --machines 5 --gib unlimited`: what an account may have at most."""

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.models import Account
from sessions_app.services import quota
from sessions_app.services.quota import Quota

UNLIMITED = "unlimited"
_OPTIONS = {"sessions": (Quota.SESSIONS, 1), "machines": (Quota.RUNNING_MACHINES, 1), "gib": (Quota.STORED_BYTES, 1 << 30)}
_MOST = 10**9


class Command(BaseCommand):
    help = "Show or set what an account may have at most. What is in use above a new limit stays; nothing more is started."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account", help="the account's id or name")
        for name in _OPTIONS:
            parser.add_argument(f"--{name}", metavar=f"N|{UNLIMITED}")
        parser.add_argument("--defaults", action="store_true", help="the installation's defaults again (KEEPSTATE_QUOTA_*)")

    def handle(self, *args: Any, **options: Any) -> None:
        account = Account.objects.filter(id=options["account"]).first() or Account.objects.filter(name=options["account"]).first()
        if account is None:
            raise CommandError("There is no such account. Nothing was changed.")
        changes = {which: _limit(name, options[name], unit) for name, (which, unit) in _OPTIONS.items() if options[name] is not None}
        if options["defaults"] and changes:
            raise CommandError("--defaults takes no limits beside it. Nothing was changed.")
        if options["defaults"]:
            quota.use_defaults(account, by=_who())
        elif changes:
            quota.set_limits(account, changes, by=_who())
        for standing in quota.of_account(account):
            limit = UNLIMITED if standing.limit is None else standing.limit
            used = "not measured" if standing.used is None else standing.used
            self.stdout.write(f"{standing.quota}: {used} of {limit}")


def _limit(name: str, text: str, unit: int) -> int | None:
    if text == UNLIMITED:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) <= _MOST):
        raise CommandError(f"--{name} is a whole number up to {_MOST}, or {UNLIMITED}. Nothing was changed.")
    return int(text) * unit


def _who() -> str:
    return f"command/{getpass.getuser()}"
