"""`manage.py migrate`: Django's own, which never keeps a working service waiting (keepstate_site/schema/patience.py)."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands.migrate import Command as Migrate
from django.db import connections
from django.db.migrations import Migration

from keepstate_site.schema import patience
from keepstate_site.schema.patience import Impatient, Patience

PATIENCE_SECONDS = 600


class Command(Migrate):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--patience",
            type=int,
            default=PATIENCE_SECONDS,
            help=f"seconds for which tables in use are tried again, and another migrate is waited for (default {PATIENCE_SECONDS})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["plan"] or options["check_unapplied"]:
            super().handle(*args, **options)
            return
        self.connection = connections[options["database"]]
        self.patience = Patience(options["patience"])
        try:
            with patience.alone(self.connection, self.patience):
                patience.until_done(self.connection, lambda: Migrate.handle(self, *args, **options), self.patience, self._say)
        except Impatient as error:
            raise CommandError(str(error)) from error

    def migration_progress_callback(self, action: str, migration: Migration | None = None, fake: bool = False) -> None:
        super().migration_progress_callback(action, migration, fake)
        if action in ("apply_start", "unapply_start") and migration is not None and not fake:
            patience.begin(self.connection, migration, self.patience)

    def _say(self, text: str) -> None:
        self.stdout.write(f" {text}")
        self.stdout.flush()
