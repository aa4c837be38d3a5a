"""Write docs/states.md, or check that it is current."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from checkpoints_app.services.state_tables import page


class Command(BaseCommand):
    help = "Write docs/states.md from the state tables of the apps."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not current")
        parser.add_argument("--file", type=Path, default=Path(settings.BASE_DIR) / "docs" / "states.md")

    def handle(self, *args: Any, check: bool, file: Path, **options: Any) -> None:
        wanted = page()
        if not check:
            file.write_text(wanted)
        elif not file.exists() or file.read_text() != wanted:
            raise CommandError(f"{file} is not what the state tables say. Run: manage.py write_states")
