"""`./keepstate host`: this host: its pins, its machines as they are now, its cache."""

import shutil
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from workers.cache.files import DEVICES, DISK, MEMORY
from workers.host.drivers import driver
from workers.host.identity import cache_directory, host_id, machines_directory
from workers.models import Host

MIB = 1 << 20


class Command(BaseCommand):
    help = "Show this host: its pins, its machines as they are at this moment, its cache of assembled images."

    def add_arguments(self, parser: CommandParser) -> None:
        help_text = "remove every assembled image; checkpoints and machines are not touched"
        parser.add_argument("--clear-cache", action="store_true", help=help_text)

    def handle(self, *args: Any, **options: Any) -> None:
        self._show_host()
        self._show_machines()
        for kind in (MEMORY, DISK, DEVICES):
            directory = cache_directory() / kind
            images = sorted(directory.glob("*.sum")) if directory.exists() else []
            held = sum(image.with_suffix("").stat().st_blocks * 512 for image in images)
            self.stdout.write(f"cache     {kind:8} {len(images)} images, {held / MIB:.1f} MiB")
            if options["clear_cache"]:
                shutil.rmtree(directory, ignore_errors=True)
        if options["clear_cache"]:
            self.stdout.write("cache     cleared; the next resume reads the store")

    def _show_host(self) -> None:
        host = Host.objects.filter(id=host_id()).first()
        if host is None:
            self.stdout.write(f"host      {host_id()}: not registered; its workers have not started on this database")
            return
        state = "draining" if host.draining else "taking work"
        self.stdout.write(f"host      {host.id}: {state}, last heard of {host.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC")
        self.stdout.write(f"network   {'each machine has one' if host.network else 'machines have none here; ./keepstate doctor says why'}")
        for pin in host.pins.all():
            facts = " ".join(f"{name}={value[:24]}" for name, value in sorted(pin.facts.items()))
            self.stdout.write(f"pin       {pin.digest[:16]} {facts}")

    def _show_machines(self) -> None:
        directories = sorted(machines_directory().glob("*.*")) if machines_directory().exists() else []
        for runtime in directories:
            machine = driver().attach(runtime)
            status = machine.inspect() if machine else None
            self.stdout.write(f"machine   {runtime.name} " + (f"{status.state} pid {status.pid}" if status else "no process"))
        if not directories:
            self.stdout.write("machine   none")
