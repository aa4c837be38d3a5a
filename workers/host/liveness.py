"""Which hosts are heard of, by the database's clock alone. A host tells that it is alive every few seconds (workers/host/heartbeat)."""

from datetime import timedelta

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


def takes_work() -> "QuerySet[Host]":
    return alive().filter(draining=False)


def fresh() -> Expression:
    """Whether each host of a query is alive, as an annotation."""
    return Case(When(is_fresh(), then=Value(True)), default=Value(False))
