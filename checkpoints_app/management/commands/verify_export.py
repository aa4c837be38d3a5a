"""`manage.py verify_export FILE`: is this file, to the last bit, what was exported? Needs its key, but no account and no database."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints_app.management import export_key
from checkpoints_app.services.export import verify
from sessions_app.errors import ServiceError


class Command(BaseCommand):
    help = "Read an export to its end and check every byte."
    requires_system_checks: list[str] = []  # noqa: RUF012  it needs nothing of the installation

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        export_key.add_argument(parser, help_="64 hex digits, mode 0600; '-' reads them from standard input", required=True)

    def handle(self, *args: Any, file: Path, key_file: Path, **options: Any) -> None:
        key = export_key.require(key_file)
        try:
            with open(file, "rb") as opened:
                verified = verify(opened, key)
        except ServiceError as error:
            raise CommandError(f"Refused. {error.message} {error.next_action}") from error
        except OSError as error:
            raise CommandError(f"The file cannot be read: {error}") from error
        self.stdout.write(json.dumps({"verified": True, **vars(verified)}))
