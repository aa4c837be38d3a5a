"""Which installation runs under a host's id: one at a time.

The host's row carries the id of the installation that has it. Another one that starts under the same id (a copied disk, a name given twice)
is refused while the first is heard of, or expected back: two hosts would settle each other's sessions.
"""

from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from workers.host import liveness
from workers.host.identity import host_id, instance
from workers.models import Host

#: The exit code of a command whose installation may not run under its host's id: starting it again helps nothing.
REFUSED = 78


class HostRefused(Exception):
    """This installation may not run under its id: another one has it, or it is retired. Says what to do."""


def mine() -> "QuerySet[Host]":
    """This host's row, if it is still this installation's."""
    return Host.objects.filter(id=host_id(), instance__in=["", instance()], retired_at=None)


@transaction.atomic
def claim(*, vm: bool = False, **facts: Any) -> Host:
    """Take the id for this installation and tell the host's facts. `vm`: for its vm worker. Raises HostRefused: nothing was written."""
    Host.objects.bulk_create([Host(id=host_id(), **facts)], ignore_conflicts=True)
    heard = {"heartbeat_at": Now(), "observed_at": Now(), "resting_until": None, "lost_at": None, **liveness.told_by(vm=vm)}
    if not _free().update(instance=instance(), **heard, **facts):
        raise HostRefused(why_refused())
    return Host.objects.get(id=host_id())


def _free() -> "QuerySet[Host]":
    """The row, if this installation may have it."""
    gone = ~liveness.is_fresh() & (Q(resting_until=None) | Q(resting_until__lt=Now()))
    return Host.objects.filter(Q(instance__in=["", instance()]) | gone, id=host_id(), retired_at=None)


def refused() -> str:
    """Why `claim` would be refused at this moment, and what to do; empty where it would not."""
    return why_refused() if Host.objects.filter(id=host_id()).exists() and not _free().exists() else ""


def why_refused() -> str:
    """Why this installation does not run under its id, and what to do."""
    host = Host.objects.filter(id=host_id()).annotate(age=Now() - F("heartbeat_at")).first()
    if host is None:
        return f"The host {host_id()} is not known any more. Start its workers again; they register it."
    if host.retired_at is not None:
        return (
            f"The host {host.id} was retired at {host.retired_at:%Y-%m-%d %H:%M} UTC: it takes no work. To take it back: "
            f"./keepstate host enrol {host.id}, then start its workers."
        )
    age = int(host.age.total_seconds())
    return (
        f"Another installation runs as the host {host.id} and was heard of {age} s ago. Nothing was started. Give this one an id of "
        "its own (KEEPSTATE_HOST_ID), or stop the workers of the other one first. If that one is gone for good: ./keepstate host lost "
        f"{host.id}, then start these again."
    )
