"""Sessions by state, and hosts with their room."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Sum

from sessions_app.models import Session
from sessions_app.states import SESSION_LIVE, SessionState
from workers.host.room import HOLDS_MEMORY, room
from workers.host.state import with_state
from workers.models import Host

#: The states that an operator is told of. Parked and deleted sessions are the many, and nothing is wrong with them.
TOLD = [*SESSION_LIVE, SessionState.PROVISIONING, SessionState.RESUMING, SessionState.FAILED, SessionState.RECOVERY_REQUIRED]
MOST_HOSTS = 50


def by_state() -> dict[str, int]:
    found = Session.objects.filter(runtime_state__in=TOLD).order_by().values_list("runtime_state").annotate(number=Count("id"))
    return dict(found)


@dataclass(frozen=True)
class HostNow:
    id: str
    state: str  # of workers/host/state.py
    heartbeat_at: datetime
    machines: int
    promised_bytes: int
    room_bytes: int


def hosts() -> list[HostNow]:
    """The hosts, those first that were heard of longest ago; at most MOST_HOSTS."""
    held = Session.objects.filter(runtime_state__in=HOLDS_MEMORY).exclude(host_id="").order_by()
    rows = held.values_list("host_id").annotate(number=Count("id"), total=Sum("memory_bytes"))
    by_host = {host: (number, total) for host, number, total in rows}
    oldest_first = with_state(Host.objects.filter(retired_at=None)).order_by("heartbeat_at", "id")[:MOST_HOSTS]
    free = room(oldest_first)
    return [_host(host, by_host.get(host.id, (0, 0)), free[host.id]) for host in oldest_first]


def _host(host: Any, held: tuple[int, int], free: int) -> HostNow:
    machines, promised = held
    return HostNow(host.id, host.state, host.heartbeat_at, machines, promised, free)
