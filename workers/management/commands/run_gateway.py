"""`manage.py run_gateway`: the process that answers the model calls of this host's machines, and lets them out to where they may."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from gateway_app.proxy.server import listen
from gateway_app.proxy.settings import proxy_settings
from workers.gateway.namespaces import Namespaces
from workers.gateway.run import Ending, House, run
from workers.host.identity import host_directory, host_id
from workers.machine.network.addresses import EGRESS_PORT, GATEWAY_PORT
from workers.machine.network.namespace import DIRECTORY_NAME


class Command(BaseCommand):
    requires_system_checks = ("security",)
    help = "Answer the model calls of this host's machines. SIGTERM lets it end what it has begun; a second one does not."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--drain-seconds", type=int, help="how long it may take to end (default: KEEPSTATE_GATEWAY_DRAIN_SECONDS)")

    def handle(self, *args: Any, **options: Any) -> None:
        drain = options["drain_seconds"]
        house = House(
            host_id=host_id(),
            directory=host_directory(),
            places=Namespaces(host_directory() / DIRECTORY_NAME),
            serves={GATEWAY_PORT: listen},
            settings=proxy_settings(),
            drain_seconds=settings.KEEPSTATE_GATEWAY_DRAIN_SECONDS if drain is None else drain,
            ready=_mark_ready,
            egress_port=EGRESS_PORT,
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(house))


async def _run(house: House) -> None:
    ending = Ending()
    ending.obey(signal.SIGTERM, signal.SIGINT)
    await run(house, ending)


def _mark_ready() -> None:
    if marker := os.environ.get("KEEPSTATE_READY_MARKER"):
        Path(marker).touch()
