"""`manage.py register_images`: record the guest images that lie on this host."""

from typing import Any

from django.core.management.base import BaseCommand

from workers.host.register import register_images


class Command(BaseCommand):
    help = "Record the guest images that lie in KEEPSTATE_IMAGES; what is known already keeps its row."

    def handle(self, *args: Any, **options: Any) -> None:
        names = register_images()
        self.stdout.write("registered: " + (", ".join(names) or "no image was found"))
