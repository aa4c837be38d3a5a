"""Say whether a receipt of erasure is what this service wrote."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints_app.services import receipt


class Command(BaseCommand):
    help = "Verify a receipt of erasure: JSON as it was handed out, from a file or from standard input. Exit status 1: not genuine."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="the receipt's file, or - for standard input")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        try:
            content = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text())
        except (OSError, ValueError) as error:
            raise CommandError(f"This is no receipt: {error}") from error
        if not isinstance(content, dict) or not receipt.is_genuine_text(content):
            raise CommandError("Not genuine: this service, under its present master key or the one before it, did not write this.")
        self.stdout.write(f"Genuine: {content.get('receipt')} of account {content.get('account')}.")
