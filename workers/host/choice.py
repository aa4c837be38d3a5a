"""Which host does what, of many that ask at once: rules without a database.

In order of acceptance, each takes the best host that has room for it: where its memory image lies assembled, then where its packs lie, then
the one of which the largest share stays free. One that nothing fits lets later and smaller ones pass, for a time: who has waited for long
keeps the host where least is missing, and what becomes free there is nobody else's until it fits. Only the first of these keeps a host, so
that a large one is not starved and one host's room at most stands still; where there is only one host, those behind it wait with it.

Demands of one kind wait for the same: where one of them has found no host, none that is as large or larger is looked at.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sessions_app.states import WaitsFor
from workers.host.offers import Offer
from workers.states import Heat

_WARMTH: Mapping[Heat | None, int] = {Heat.HOT: 2, Heat.WARM: 1}


@dataclass(frozen=True)
class Demand:
    """What an operation asks for. With a `pin`, hosts that have proved it; without one, those that have proved some pin of the
    architecture."""

    architecture: str
    image_digest: str  # of the guest
    memory_bytes: int  # 0: it needs no room
    pin: str = ""
    memory_root: str = ""  # of the image that its memory comes from
    host_id: str = ""  # that host and no other
    avoid: str = ""  # that host only where no other has room
    waited_long: bool = False
    more_behind: bool = False  # others of its kind stand behind it that are not among those that are looked at

    @property
    def kind(self) -> str:
        """What it shares with others: where it may be done, and its size up to the next power of two. 32 characters."""
        shared = (self.architecture, self.image_digest, self.pin, self.host_id, str(self.memory_bytes.bit_length()))
        return hashlib.blake2b("\0".join(shared).encode(), digest_size=16).hexdigest()


def suitable(demand: Demand, offers: Sequence[Offer]) -> list[Offer]:
    """Those that could ever do it, full ones and such as take no work now too. Where some are known to have its guest image, only they."""
    found = [one for one in offers if _suits(demand, one)]
    return [one for one in found if demand.image_digest in one.has] or found


def choose(demands: Sequence[Demand], offers: Sequence[Offer]) -> list[str]:
    """For each demand, in order, the host that does it, or '' for one that waits. Effects: the offers have so much less room.

    Where the last of a kind's share is placed, all behind it wait: it may be the turn of those that are not among them.
    """
    kept: Offer | None = None
    hosts: list[str] = []
    least: dict[str, float] = {}  # by kind, the smallest that has found no host
    for demand in demands:
        too_large = demand.memory_bytes >= least.get(demand.kind, math.inf)
        if too_large and (kept is not None or not demand.waited_long):
            hosts.append("")
            continue
        able = [one for one in suitable(demand, offers) if one.takes_work and one is not kept]
        fitting = [one for one in able if demand.memory_bytes <= max(one.free_bytes, 0)]
        if fitting:
            best = max(fitting, key=lambda one: _rank(demand, one))
            best.free_bytes -= demand.memory_bytes
            hosts.append(best.host_id)
            if demand.more_behind:
                break
            continue
        hosts.append("")
        least[demand.kind] = min(demand.memory_bytes, least.get(demand.kind, math.inf))
        large_enough = [one for one in able if one.offered_bytes >= demand.memory_bytes]
        if kept is None and demand.waited_long and large_enough:
            kept = max(large_enough, key=lambda one: one.free_bytes)
    return hosts + [""] * (len(demands) - len(hosts))


def is_too_large(demand: Demand, offers: Sequence[Offer]) -> bool:
    """Whether no host that suits offers so much, even if it were empty."""
    return all(one.offered_bytes < demand.memory_bytes for one in suitable(demand, offers))


def why_it_waits(demand: Demand, offers: Sequence[Offer]) -> WaitsFor:
    found = suitable(demand, offers)
    if not found:
        return WaitsFor.NO_HOST
    large_enough = [one for one in found if one.offered_bytes >= demand.memory_bytes]
    if not large_enough or any(one.takes_work for one in large_enough):
        return WaitsFor.NO_ROOM
    return WaitsFor.DRAINING if all(one.draining for one in large_enough) else WaitsFor.NO_HOST


def _suits(demand: Demand, offer: Offer) -> bool:
    proved = demand.pin in offer.pins if demand.pin else demand.architecture in offer.architectures
    return proved and demand.host_id in ("", offer.host_id)


def _rank(demand: Demand, offer: Offer) -> tuple[bool, int, float, int, str]:
    left = offer.free_bytes - demand.memory_bytes
    elsewhere = offer.host_id != demand.avoid
    return elsewhere, _WARMTH.get(offer.has.get(demand.memory_root), 0), left / max(offer.offered_bytes, 1), left, offer.host_id
