"""Bring every account's key under the present master key."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from checkpoints_app.services import key, receipt
from checkpoints_app.store import StoreError


class Command(BaseCommand):
    help = (
        "Wrap every account's key with KEEPSTATE_MASTER_KEY, opening it with KEEPSTATE_MASTER_KEY_PREVIOUS where need be. "
        "Safe to repeat; when it has succeeded, the previous key is needed no more."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.KEEPSTATE_MASTER_KEY_PREVIOUS is None:
            self.stderr.write("KEEPSTATE_MASTER_KEY_PREVIOUS is not set: keys are looked at, and their objects put where they are missing.")
        try:
            done = key.rotate()
        except StoreError as error:
            raise CommandError(f"{error} Keys that were brought over stay so; run it again when this is mended.") from error
        signed = receipt.sign_again()
        self.stdout.write(
            f"{done.rewrapped} account keys wrapped anew, {done.current} were current already, {signed} receipts signed again. "
            "Take KEEPSTATE_MASTER_KEY_PREVIOUS out of the environment of every process, and destroy that key."
        )
