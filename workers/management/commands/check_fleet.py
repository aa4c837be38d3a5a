"""`manage.py check_fleet`: whether a host's workers could start here; what `./keepstate host --id` and the systemd units ask first."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workers.host.claim import REFUSED
from workers.host.joining import Found, look


class Command(BaseCommand):
    requires_system_checks = ("security",)
    help = (
        "Look at what this machine must share with its fleet: database, broker, schema, store, master key, clock. Ends with 1 if it "
        "cannot, with 78 if only the host's id is refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON list instead of lines; ends with 0")
        parser.add_argument(
            "--shared",
            action="store_true",
            help="leave out whether this installation may have its id: a worker ends with 78 then, and a supervisor knows not to try again",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        found = [one for one in look() if one.name != "id" or not options["shared"]]
        if options["json"]:
            self.stdout.write(json.dumps([asdict(one) for one in found]))
            return
        for one in found:
            self.stdout.write(f"{_verdict(one):5} {one.name:11} {one.text}")
        if wrong := [one.name for one in found if one.problem]:
            raise CommandError(f"No worker may start here: {', '.join(wrong)}.", returncode=REFUSED if wrong == ["id"] else 1)


def _verdict(one: Found) -> str:
    return "FAIL" if one.problem else "warn" if one.doubt else "ok"
