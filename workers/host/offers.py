"""What the live hosts offer now: their pins, their room, and what of the things asked for they have already."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.host import liveness
from workers.host.room import offered, room
from workers.models import CachedImage, HostPin
from workers.states import Heat


@dataclass
class Offer:
    """One live host. `free_bytes` is what it can still promise: whoever places by it takes from it what was placed."""

    host_id: str
    pins: frozenset[str]
    architectures: frozenset[str]
    draining: bool
    offered_bytes: int
    free_bytes: int
    has: Mapping[str, Heat]  # by root of a memory image or digest of a guest image: how warm it is
    vm_silent: bool = False  # its vm worker is not heard of: nothing new is begun there until it is

    @property
    def takes_work(self) -> bool:
        return not self.draining and not self.vm_silent


def offers(roots: Iterable[str]) -> list[Offer]:
    """Of every live host, such as take no work now too. Five queries, whatever their number; of their caches only `roots` are read."""
    hosts = list(liveness.alive().annotate(vm_silent=liveness.has_silent_vm()).order_by("id"))
    pins: dict[str, set[str]] = defaultdict(set)
    architectures: dict[str, set[str]] = defaultdict(set)
    for host, pin, architecture in HostPin.objects.filter(host__in=hosts).values_list("host_id", "pin_id", "pin__architecture"):
        pins[host].add(pin)
        architectures[host].add(architecture)
    has: dict[str, dict[str, Heat]] = defaultdict(dict)
    wanted = CachedImage.objects.filter(root__in=sorted(set(roots) - {""}), host__in=hosts)
    for host, root, heat in wanted.values_list("host_id", "root", "heat"):
        has[host][root] = Heat(heat)
    free = room(hosts)
    return [
        Offer(
            host.id,
            frozenset(pins[host.id]),
            frozenset(architectures[host.id]),
            host.draining,
            offered(host),
            free[host.id],
            has[host.id],
            host.vm_silent,
        )
        for host in hosts
    ]
