"""Read and verify what is stored."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints_app.models import Sweep
from checkpoints_app.services import scrub
from checkpoints_app.store import StoreError
from sessions_app.services.locks import Busy

_WHAT_TO_DO = (
    "Damaged units heal by themselves when the same content is saved again. Of a pack that is missing, or whose table is not authentic, "
    "nobody knows what it held: put it back from a copy of the store and scrub again, or import an export of the checkpoint. "
    "Until then its checkpoints are refused; sessions can be resumed from their other ones."
)


class Command(BaseCommand):
    help = "Verify stored packs and manifests, least recently verified first; without options those that are due. Exit status 1: bad ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--budget-mib", type=int, help="stop after so many MiB, due or not")
        parser.add_argument("--all", action="store_true", help="verify everything, due or not")

    def handle(self, *args: Any, budget_mib: int | None, **options: Any) -> None:
        everything = options["all"] or budget_mib is not None
        try:
            row = scrub.run(budget_bytes=None if budget_mib is None else budget_mib << 20, everything=everything, progress=self._progress)
        except Busy as error:
            raise CommandError("Another scrub is at work. Nothing was done; wait for it, or watch its progress in the admin.") from error
        except StoreError as error:
            raise CommandError(f"{error} What was verified before counts; run it again.") from error
        self.stdout.write(f"{row.objects_done} objects, {row.bytes_done >> 20} MiB verified.")
        for text in row.report["bad"]:
            self.stdout.write(f"bad: {text}")
        for kind in ("corrupted", "healed"):
            for one in row.report[kind]:
                self.stdout.write(f"{kind}: {one}")
        if row.report["not_judged"]:
            self.stdout.write(f"{row.report['not_judged']} objects were not judged: their accounts' keys do not open.")
        if row.report["bad"]:
            self.stdout.write(_WHAT_TO_DO)
            sys.exit(1)

    def _progress(self, row: Sweep) -> None:
        self.stderr.write(f"\r{row.objects_done} objects, {row.bytes_done >> 20} MiB", ending="")
