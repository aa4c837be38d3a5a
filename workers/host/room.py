"""How much memory each host can still promise to machines."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import F, Q, Sum

from sessions_app.models import Operation, Session
from sessions_app.states import OPERATION_ACTIVE, SESSION_LIVE, OperationKind, SessionState
from workers.models import Host

#: Guests share pages of their images and rarely touch all their memory; what is promised may exceed what is there by this factor.
OVERCOMMIT = 1.5
HOLDS_MEMORY = [*SESSION_LIVE, SessionState.PROVISIONING, SessionState.RESUMING]


def room(hosts: Iterable[Host]) -> dict[str, int]:
    """Bytes by host id; below 0 where more is promised than offered. Two queries, whatever the number of hosts.

    What it tells holds until somebody else reserves: who decides by it holds the lock of placement (workers/host/placement.py).
    """
    offers = {host.id: offered(host) for host in hosts}
    taken = _held(offers) + _reserved(offers)
    return {host: free - taken[host] for host, free in offers.items()}


def offered(host: Host) -> int:
    """Bytes that its machines may have together: what an operator has set, else by the memory that it has.

    Processors bound nothing: a machine that waits for its model takes none, and one that has too few is slow, not lost.
    """
    return int(host.memory_bytes * OVERCOMMIT) if host.offered_bytes is None else host.offered_bytes


def _held(hosts: Iterable[str]) -> Counter[str]:
    """By the machines of sessions that are on a host."""
    there = Session.objects.filter(host_id__in=list(hosts), runtime_state__in=HOLDS_MEMORY)
    return Counter(dict(there.values_list("host_id").annotate(Sum("memory_bytes"))))


def _reserved(hosts: Iterable[str]) -> Counter[str]:
    """By operations whose machines are not there yet. A fork reserves for machines of other sessions than its own."""
    asked = Operation.objects.filter(state__in=OPERATION_ACTIVE, host_id__in=list(hosts), reserved_bytes__gt=0)
    is_there = Q(session__host_id=F("host_id"), session__runtime_state__in=HOLDS_MEMORY) & ~Q(kind=OperationKind.FORK)
    return Counter(dict(asked.exclude(is_there).values_list("host_id").annotate(Sum("reserved_bytes"))))
