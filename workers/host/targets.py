"""Where a running session could go: the other hosts that take work and have its pin, and which of them have room for it now."""

from collections.abc import Iterable
from dataclasses import dataclass

from sessions_app.models import Session
from workers.host import liveness
from workers.host.room import room
from workers.models import Host

MIB = 1 << 20


@dataclass(frozen=True)
class Targets:
    """Of one session. `having`: the other hosts with its pin, whatever they do now; `able`: those that take it, most room first."""

    session: Session
    having: tuple[str, ...]
    taking: tuple[str, ...]  # of these, such as take work, whether or not they have room
    able: tuple[str, ...]

    def why_none(self) -> str:
        """Why it stays where it is; '' if some host could take it now."""
        if self.able:
            return ""
        if self.taking:
            return f"no room for {self.session.memory_bytes // MIB} MiB on {', '.join(self.taking)}"
        if self.having:
            return f"the other hosts with its pin take no work: {', '.join(self.having)}"
        return f"no other host has its pin {self.session.pin_digest[:16]}"


def of(sessions: Iterable[Session]) -> dict[str, Targets]:
    """By session id. A few queries, whatever the number of sessions. What it tells of room holds until somebody else reserves."""
    found = list(sessions)
    pins = {session.pin_digest for session in found}
    hosts = Host.objects.filter(pins__in=pins, retired_at=None).distinct().prefetch_related("hostpin_set")
    takes = set(liveness.takes_work().values_list("id", flat=True))
    having = {host.id: {row.pin_id for row in host.hostpin_set.all()} for host in hosts}
    free = room(host for host in hosts if host.id in takes)
    return {session.id: _of(session, having, free) for session in found}


def _of(session: Session, having: dict[str, set[str]], free: dict[str, int]) -> Targets:
    others = sorted(host for host, pins in having.items() if session.pin_digest in pins and host != session.host_id)
    taking = sorted((host for host in others if host in free), key=lambda host: -free[host])
    able = [host for host in taking if free[host] >= session.memory_bytes]
    return Targets(session, tuple(others), tuple(taking), tuple(able))


def away_from(session: Session, host_id: str) -> tuple[str, ...]:
    """The hosts that could take a session that has just left this one, most room first."""
    return tuple(host for host in of([session])[session.id].able if host != host_id)
