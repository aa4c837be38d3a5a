"""`manage.py import_checkpoint FILE --account NAME`: an export becomes a parked session of that account."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints_app.management import export_key
from checkpoints_app.services.import_ import import_
from checkpoints_app.store import StoreError
from sessions_app.errors import ServiceError
from sessions_app.models import Account


class Command(BaseCommand):
    help = (
        "Make a parked session with the exported checkpoint. Its image must be registered here. Repeated, it tells what the first import "
        "made; --again makes another session. Interrupted, nothing was published and the same command starts over."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--account", required=True, help="the account's name")
        parser.add_argument("--again", action="store_true", help="import it though it was imported before")
        export_key.add_argument(parser, help_="64 hex digits, mode 0600; '-' reads them from standard input", required=True)

    def handle(self, *args: Any, file: Path, account: str, again: bool, key_file: Path, **options: Any) -> None:
        key = export_key.require(key_file)
        owner = Account.objects.filter(name=account).first()
        if owner is None:
            raise CommandError(f"There is no account {account!r}. Nothing was imported. Make it: manage.py ensure_account {account}")
        try:
            with open(file, "rb") as opened:
                imported = import_(owner, opened, key, again=again)
        except ServiceError as error:
            raise CommandError(f"{error.message} {error.next_action}") from error
        except (StoreError, OSError) as error:
            raise CommandError(f"The import stopped: {error}. Nothing was published; the same command starts over.") from error
        self.stdout.write(json.dumps(vars(imported)))
