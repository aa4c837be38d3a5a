"""Draining: a host that takes no new work. Its machines run on, and what they are asked is done there."""

from django.db import transaction

from sessions_app.errors import Conflict
from sessions_app.services.by_operator import write
from workers.models import Host


def drain(host: Host, by: str) -> None:
    """Raises Conflict if it is draining already; then nothing was written."""
    _set(host, by, draining=True)


def take_work(host: Host, by: str) -> None:
    """The end of draining. Raises Conflict if the host was not draining."""
    _set(host, by, draining=False)


@transaction.atomic
def _set(host: Host, by: str, *, draining: bool) -> None:
    if not Host.objects.filter(id=host.id, draining=not draining).update(draining=draining):
        raise Conflict(f"The host {'is draining' if draining else 'takes work'} already. Nothing was done.")
    write("drain" if draining else "undrain", by, account_id="", host_id=host.id)
