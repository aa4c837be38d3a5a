"""The operator's login to the admin."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sessions_app.services.operator import USERNAME, ensure_operator


class Command(BaseCommand):
    help = (
        'Make the superuser that signs in to the admin, and print {"username", "password"}. With --password-file the password is kept '
        "there (mode 0600); it is null if a person has changed it since. Without a file a new password is drawn and set."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--password-file", type=Path, default=None)
        parser.add_argument("--json", action="store_true", help="print JSON, which is what this command prints in any case")

    def handle(self, *args: Any, password_file: Path | None, **options: Any) -> None:
        try:
            password = ensure_operator(password_file)
        except OSError as error:
            raise CommandError(f"The password file cannot be used: {error}") from error
        self.stdout.write(json.dumps({"username": USERNAME, "password": password}))
