"""`manage.py host_cache`: what this host has assembled, and how to make it forget (the next resume then reads the store)."""

import shutil
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from workers.cache.files import DEVICES, DISK, MEMORY
from workers.host.identity import cache_directory


class Command(BaseCommand):
    help = "List this host's assembled images, or --clear them. Machines that run keep what they have mapped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--clear", action="store_true", help="remove every assembled image; checkpoints are not touched")

    def handle(self, *args: Any, **options: Any) -> None:
        for kind in (MEMORY, DISK, DEVICES):
            directory = cache_directory() / kind
            for path in sorted(directory.glob("*.sum")) if directory.exists() else []:
                image = path.with_suffix("")
                self.stdout.write(f"{kind:8} {image.stat().st_blocks * 512 / (1 << 20):8.1f} MiB  {image.name}")
            if options["clear"]:
                shutil.rmtree(directory, ignore_errors=True)
