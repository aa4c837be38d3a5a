"""Draining: a host that takes no new work. Its machines run on, and what they are asked is done there; or they are moved to other hosts."""

from django.db import transaction
from django.db.models.functions import Now

from sessions_app.errors import Conflict
from sessions_app.services import waiting
from sessions_app.services.by_operator import write
from workers.models import Host


@transaction.atomic
def drain(host: Host, by: str, *, move: bool = False) -> None:
    """`move`: its machines are saved and resumed elsewhere, a few at a time (workers/fleet/moves.py); a draining host may be told so later.

    Raises Conflict if it does all that already; then nothing was written.
    """
    known = Host.objects.filter(id=host.id, retired_at=None)
    changed = (
        known.filter(moving=False).update(draining=True, moving=True, moving_since=Now())
        if move
        else known.filter(draining=False).update(draining=True)
    )
    if not changed:
        raise Conflict(f"The host {'moves its machines' if move else 'is draining'} already, or is retired. Nothing was done.")
    write("drain", by, account_id="", host_id=host.id, move=move)


@transaction.atomic
def take_work(host: Host, by: str) -> None:
    """The end of draining; moves that are under way come to their end. Raises Conflict if the host was not draining."""
    draining = Host.objects.filter(id=host.id, draining=True, retired_at=None)
    if not draining.update(draining=False, moving=False, moving_since=None):
        raise Conflict("The host takes work already, or is retired. Nothing was done.")
    waiting.wake()
    write("undrain", by, account_id="", host_id=host.id)
