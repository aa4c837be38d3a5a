"""Erase everything that the store holds of an account."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints_app.services import account_erase, receipt
from checkpoints_app.store import StoreError
from sessions_app.errors import ServiceError
from sessions_app.models import Account
from sessions_app.services.locks import Busy


class Command(BaseCommand):
    help = "Erase an account's stored content and destroy its key; prints the signed receipt. Its sessions must be deleted before."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", help="the account's id")

    def handle(self, *args: Any, account: str, **options: Any) -> None:
        row = Account.objects.filter(id=account).first()
        if row is None:
            raise CommandError(f"There is no account {account}. Nothing was erased.")
        try:
            signed = account_erase.erase_account(row)
        except Busy as error:
            raise CommandError("Another erasure of this account is at work. Wait for it, then run this again.") from error
        except ServiceError as error:
            raise CommandError(f"{error.message} {error.next_action}") from error
        except StoreError as error:
            raise CommandError(f"{error} No receipt was written; run it again when this is mended.") from error
        self.stdout.write(json.dumps(receipt.shown(signed), indent=2))
