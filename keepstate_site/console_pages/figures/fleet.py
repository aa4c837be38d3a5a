"""Sessions by state, and hosts with their room."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Sum
from django.db.models.functions import Now

from sessions_app.models import Session
from sessions_app.states import SESSION_LIVE, SessionState
from workers.host.compatibility import FRESH
from workers.host.placement import OVERCOMMIT
from workers.models import Host

#: The states that an operator is told of. Parked and deleted sessions are the many, and nothing is wrong with them.
TOLD = [*SESSION_LIVE, SessionState.PROVISIONING, SessionState.RESUMING, SessionState.FAILED, SessionState.RECOVERY_REQUIRED]
_HOLDS_MEMORY = [*SESSION_LIVE, SessionState.PROVISIONING, SessionState.RESUMING]
MOST_HOSTS = 50


def by_state() -> dict[str, int]:
    found = Session.objects.filter(runtime_state__in=TOLD).order_by().values_list("runtime_state").annotate(number=Count("id"))
    return dict(found)


@dataclass(frozen=True)
class HostNow:
    id: str
    state: str  # alive, draining, silent
    heartbeat_at: datetime
    machines: int
    promised_bytes: int
    room_bytes: int


def hosts() -> list[HostNow]:
    """The hosts, those first that were heard of longest ago; at most MOST_HOSTS."""
    held = Session.objects.filter(runtime_state__in=_HOLDS_MEMORY).exclude(host_id="").order_by()
    rows = held.values_list("host_id").annotate(number=Count("id"), total=Sum("memory_bytes"))
    by_host = {host: (number, total) for host, number, total in rows}
    fresh = set(Host.objects.filter(heartbeat_at__gt=Now() - FRESH).values_list("id", flat=True))
    oldest_first = Host.objects.order_by("heartbeat_at", "id")[:MOST_HOSTS]
    return [_host(host, host.id in fresh, by_host.get(host.id, (0, 0))) for host in oldest_first]


def _host(host: Host, fresh: bool, held: tuple[int, int]) -> HostNow:
    machines, promised = held
    state = "silent" if not fresh else "draining" if host.draining else "alive"
    return HostNow(host.id, state, host.heartbeat_at, machines, promised, int(host.memory_bytes * OVERCOMMIT) - promised)
