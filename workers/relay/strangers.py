"""Who stands before a relay's door: connections that have not shown yet that they know the master key."""

import asyncio
from collections import Counter
from ipaddress import ip_address, ip_network
from typing import Any

#: A network's smallest part that is one source: whoever has one address of IPv6 has all of its /64.
_PREFIX_BITS = {4: 32, 6: 64}


class Strangers:
    """No more than `places` at once. One too many sends one away: of the source that has the most of them, the one that came first.

    A good one needs a place for milliseconds, a silent one keeps its own until its time is over. To refuse who comes would let a few silent
    ones a second keep all others out; so it is the longest silent that must go, and who comes from another source than a flood is
    never the one.
    """

    def __init__(self, places: int):
        self._places = places
        self._sources: dict[asyncio.Task[Any], str] = {}  # as they came

    def come(self, trial: "asyncio.Task[Any]", address: str) -> bool:
        """Until its end `trial` may be cancelled to make room for another. Returns whether one was cancelled for it."""
        full = len(self._sources) >= self._places
        if full:
            self._send_one_away()
        self._sources[trial] = source_of(address)
        trial.add_done_callback(self._leave)
        return full

    def _leave(self, trial: "asyncio.Task[Any]") -> None:
        self._sources.pop(trial, None)

    def _send_one_away(self) -> None:
        [(most, _)] = Counter(self._sources.values()).most_common(1)
        first = next(trial for trial, source in self._sources.items() if source == most)
        self._leave(first)
        first.cancel()


def source_of(address: str) -> str:
    """Of an address as a socket tells it, which may name an interface (`fe80::1%eth0`)."""
    found = ip_address(address.partition("%")[0])
    return str(ip_network((found, _PREFIX_BITS[found.version]), strict=False))
