"""`manage.py export_checkpoint ID FILE`: one checkpoint into one sealed file."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints_app.management import export_key
from checkpoints_app.services.export import export
from checkpoints_app.store import StoreError
from sessions_app.errors import ServiceError


class Command(BaseCommand):
    help = (
        "Write a published checkpoint to FILE, sealed with a key of its own, and read it back. Interrupted, the same command with the same "
        "key continues it. Without --key-file a new key is printed, once; with one, it is taken from there, or drawn into it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("checkpoint")
        parser.add_argument("file", type=Path)
        export_key.add_argument(parser, help_="64 hex digits, mode 0600; '-' reads them from standard input", required=False)

    def handle(self, *args: Any, checkpoint: str, file: Path, key_file: Path | None, **options: Any) -> None:
        key = export_key.read(key_file) if key_file else None
        if key is None:
            key, shown = export_key.draw(key_file)
            if shown:
                self.stdout.write(json.dumps({"key": shown, "note": "Keep it: it is stored nowhere, and the file cannot be read without."}))
                self.stdout.flush()
        try:
            exported = export(checkpoint, file, key, tell=self._tell)
        except ServiceError as error:
            raise CommandError(f"{error.message} {error.next_action}") from error
        except (StoreError, OSError) as error:
            raise CommandError(f"The export stopped: {error}. The same command continues it.") from error
        self.stdout.write(json.dumps(vars(exported)))

    def _tell(self, done: int, total: int) -> None:
        self.stderr.write(f"{done} of {total} units", ending="\r")
