"""The gateway processes of the fleet: which of them serve, and what becomes of one that is gone."""

from datetime import timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now

from gateway_app.models import GatewayProcess
from gateway_app.services import open_calls

#: One that was not heard of for so long serves nobody. It tells every few seconds (gateway_app.proxy.gateway.BEAT_SECONDS).
FRESH = timedelta(seconds=20)
_FORGOTTEN = timedelta(days=1)


def fresh() -> "QuerySet[GatewayProcess]":
    return GatewayProcess.objects.filter(seen_at__gt=Now() - FRESH)


def serving_hosts() -> set[str]:
    """Hosts whose machines are answered now."""
    return set(fresh().filter(draining=False).values_list("host_id", flat=True))


def gone(name: str) -> int:
    """The process has ended, which is certain: what it left open ends as unknown. Safe to repeat. Returns how many calls that were."""
    ended = open_calls.end_of(name)
    GatewayProcess.objects.filter(name=name).delete()
    return ended


def forget_silent() -> int:
    return GatewayProcess.objects.filter(seen_at__lt=Now() - _FORGOTTEN).delete()[0]
