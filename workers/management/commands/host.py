"""`./keepstate host SUBCOMMAND`: the fleet's hosts, and this one. What each does stands in workers/management/host/."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.errors import ServiceError
from workers.management.host import cache, moving, pins, place, show
from workers.management.host.talk import Subcommand

SUBCOMMANDS: Mapping[str, Subcommand] = {
    **show.SUBCOMMANDS,
    **place.SUBCOMMANDS,
    **moving.SUBCOMMANDS,
    **pins.SUBCOMMANDS,
    **cache.SUBCOMMANDS,
}


class Command(BaseCommand):
    help = "The hosts of the fleet: look at them, enrol, drain, move, retire. Without a subcommand: show this host."

    def add_arguments(self, parser: CommandParser) -> None:
        parsers = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND")
        for name, subcommand in SUBCOMMANDS.items():
            subcommand.arguments(parsers.add_parser(name, help=subcommand.help, description=subcommand.help))

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["subcommand"] or "show"
        try:
            SUBCOMMANDS[name].run(self.stdout, {"json": False, **options})
        except ServiceError as refusal:
            raise CommandError(f"{refusal.message} {refusal.next_action}".rstrip()) from refusal
