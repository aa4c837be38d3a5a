"""An account and a token that opens it."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sessions_app.errors import Unauthenticated
from sessions_app.models import Account
from sessions_app.services import secret_file
from sessions_app.services import token as tokens
from sessions_app.services.account import ensure_account

NAME_CHARACTERS = 100


class Command(BaseCommand):
    help = (
        'Make the account if it is not there and print {"account_id", "token"}. A token cannot be shown again: with --token-file '
        "it is kept there (mode 0600) and used again while it opens this account; without, each run issues a new one."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--token-file", type=Path, default=None)
        parser.add_argument("--json", action="store_true", help="print JSON, which is what this command prints in any case")

    def handle(self, *args: Any, name: str, token_file: Path | None, **options: Any) -> None:
        if not name.strip() or len(name) > NAME_CHARACTERS or not name.isprintable():
            raise CommandError(f"An account's name has 1 to {NAME_CHARACTERS} printable characters. Nothing was made.")
        account = ensure_account(name)
        try:
            plain = _kept(account, token_file) or _issue(account, token_file)
        except OSError as error:
            raise CommandError(f"The token file cannot be used: {error}") from error
        self.stdout.write(json.dumps({"account_id": account.id, "token": plain}))


def _kept(account: Account, file: Path | None) -> str | None:
    """The token of the file, if it still opens this account."""
    plain = secret_file.read(file) if file else None
    if plain is None:
        return None
    try:
        return plain if tokens.authenticate(plain).account_id == account.id else None
    except Unauthenticated:
        return None


def _issue(account: Account, file: Path | None) -> str:
    token, plain = tokens.issue(account, "ensure_account")
    try:
        if file:
            secret_file.write(file, plain)
    except OSError:
        tokens.revoke(token)  # nobody was told it
        raise
    return plain
