"""A host as an operator looks at it: its state, its room, what is there and what is asked of it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, QuerySet
from django.db.models.functions import Now

from sessions_app.models import Operation, Session
from sessions_app.states import OPERATION_ACTIVE
from workers.host.room import HOLDS_MEMORY, offered, room
from workers.host.state import MEANS, HostState, with_state
from workers.models import Host

#: Lines of a host's page: there may be more of anything.
SHOWN = 50


@dataclass(frozen=True)
class HostRow:
    """Sizes in bytes. `heard_of`: None for a host whose workers never started. `asked`: operations that are to be done there."""

    host: Host
    state: HostState
    says: str
    labels: Mapping[str, str]
    heard_of: datetime | None
    observed_at: datetime | None
    machines: int
    offered_bytes: int
    room_bytes: int
    asked: int

    def as_dict(self) -> dict[str, Any]:
        times = {"heard_of": self.heard_of, "observed_at": self.observed_at}
        plain = {name: getattr(self, name) for name in ("says", "machines", "offered_bytes", "room_bytes", "asked")}
        told = {name: at.isoformat() if at else None for name, at in times.items()}
        return {"id": self.host.id, "state": self.state.value, "labels": dict(self.labels), **plain, **told}


def rows(hosts: "QuerySet[Host] | None" = None) -> list[HostRow]:
    """The hosts, by id; all of them if none are named. A few queries, whatever their number."""
    found = list(with_state(hosts).annotate(vm_silence=Now() - F("vm_heard_at")).order_by("id"))
    free = room(found)
    machines = _counted(Session.objects.filter(host_id__in=free, runtime_state__in=HOLDS_MEMORY))
    asked = _counted(Operation.objects.filter(host_id__in=free, state__in=OPERATION_ACTIVE))
    return [_row(host, free[host.id], machines[host.id], asked[host.id]) for host in found]


def _counted(found: "QuerySet[Any]") -> Counter[str]:
    return Counter(dict(found.order_by().values_list("host_id").annotate(number=Count("id"))))


def _row(host: Any, free: int, machines: int, asked: int) -> HostRow:
    state = HostState(host.state)
    heard_of = None if not host.boot_id else host.heartbeat_at
    return HostRow(host, state, _says(host, state), host.labels, heard_of, host.observed_at, machines, offered(host), free, asked)


def _says(host: Any, state: HostState) -> str:
    if state is not HostState.VM_SILENT:
        return MEANS[state]
    return f"its vm worker has not been heard of for {host.vm_silence.total_seconds():.0f} s: {MEANS[state]}"


def asked_of(host: Host) -> list[Operation]:
    """What is to be done there, oldest first."""
    active = Operation.objects.filter(host_id=host.id, state__in=OPERATION_ACTIVE)
    return list(active.defer("parameters", "response", "error").order_by("accepted_at")[:SHOWN])
