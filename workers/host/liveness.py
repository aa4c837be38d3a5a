"""Which hosts are heard of, by the database's clock alone. A host tells that it is alive every few seconds (workers/host/heartbeat).

Any worker of a host tells that; its machines are begun by its vm worker alone. That this one is silent is told by the host's others, again
and again, and counts for as long as they do: a release that does not know of it leaves a word that soon counts for nothing.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, Expression, Q, QuerySet, Value, When
from django.db.models.functions import Now

from workers.models import Host


def silent_after() -> timedelta:
    """A host that was not heard of for so long takes no new work (KEEPSTATE_HOST_SILENT_SECONDS)."""
    seconds: int = settings.KEEPSTATE_HOST_SILENT_SECONDS
    return timedelta(seconds=seconds)


def lost_after() -> timedelta:
    """A host of which nothing was heard for so long is lost: its sessions go on elsewhere (KEEPSTATE_HOST_LOST_SECONDS)."""
    seconds: int = settings.KEEPSTATE_HOST_LOST_SECONDS
    return timedelta(seconds=seconds)


def is_fresh(prefix: str = "") -> Q:
    """As a condition on hosts; `prefix`: on what refers to one, as `host__`."""
    return Q(**{f"{prefix}heartbeat_at__gt": Now() - silent_after(), f"{prefix}retired_at": None})


def alive() -> "QuerySet[Host]":
    """Hosts that are heard of, those that drain too."""
    return Host.objects.filter(is_fresh())


def vm_is_silent() -> Q:
    """Of hosts that are alive: their machines are there, and nobody begins another one."""
    return Q(vm_missing_at__gt=Now() - silent_after())


def begins_machines() -> "QuerySet[Host]":
    """Hosts that are heard of with their vm worker, those that drain too."""
    return alive().exclude(vm_is_silent())


def takes_work() -> "QuerySet[Host]":
    return begins_machines().filter(draining=False)


def told_by(*, vm: bool) -> dict[str, Any]:
    """What the start of a worker tells of its host's vm worker, as columns of the host's row. `vm`: it is that one itself.

    One that was never heard of is not missed: a release may run there that does not tell. Nor is one whose whole host was not heard of
    meanwhile: after an outage of the database, both are old at once.
    """
    if vm:
        return {"vm_heard_at": Now(), "vm_missing_at": None}
    missed = Q(vm_heard_at__lt=Now() - silent_after(), heartbeat_at__gt=Now() - silent_after())
    return {"vm_missing_at": Case(When(missed, then=Now()), default=None)}


def has_silent_vm() -> Expression:
    """Whether the vm worker of each host of a query is silent, as an annotation."""
    return Case(When(vm_is_silent(), then=Value(True)), default=Value(False))
