"""Restore the store's tables from the store."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints_app.services import rebuild
from checkpoints_app.store import StoreError


class Command(BaseCommand):
    help = (
        "Restore accounts, checkpoints, packs, manifests and edges from the store and the master key alone: onto an empty database, or as "
        "a repair. Stop the workers first. Exit status 1: something could not be read."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = rebuild.rebuild(self.stderr.write)
        except StoreError as error:
            raise CommandError(f"{error} Nothing was changed.") from error
        self.stdout.write(
            f"{done.accounts} accounts: {done.checkpoints} checkpoints ({done.made} without a row before, {done.corrupt} marked corrupt), "
            f"{done.packs} packs' rows restored."
        )
        for text in done.problems:
            self.stdout.write(f"problem: {text}")
        if done.problems:
            sys.exit(1)
