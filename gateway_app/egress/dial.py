"""A connection to an address that was judged: to that very address, by number, so that no second lookup can lead elsewhere."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address

from gateway_app.egress import addresses
from gateway_app.egress.addresses import Address

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
#: To an address and a port. Raises OSError.
Dial = Callable[[Address, int], Awaitable[Pair]]
#: For all addresses of a host together, and for one while there are others.
SECONDS = 10.0
SECONDS_EACH = 4.0
MOST_ADDRESSES = 4
#: A side is read so far ahead of the other, twice at most.
BUFFER_BYTES = 32 * 1024
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
#: Of documentation: no host has them.
_NOBODYS: dict[int, Address] = {4: IPv4Address("192.0.2.1"), 6: IPv6Address("2001:db8::1")}


def forbidden(address: Address) -> str:
    """What it is that no machine reaches; empty for an address that it may. This host's own are not public, whatever block they are of."""
    return addresses.forbidden(address) or ("this host's own" if own(address) else "")


def own(address: Address) -> bool:
    """Whether this host itself has the address, on whatever interface. Nothing is sent.

    A host that may bind what it does not have (ip_nonlocal_bind) is asked what it would speak from: there a second address of an interface
    is not known for its own.
    """
    if not _binds(address):
        return False
    return not _binds(_NOBODYS[address.version]) or _source(address) == str(address)


def _binds(address: Address) -> bool:
    with socket.socket(_FAMILIES[address.version], socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
        return True


def _source(address: Address) -> str:
    with socket.socket(_FAMILIES[address.version], socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


async def by_number(address: Address, port: int) -> Pair:
    return await asyncio.open_connection(str(address), port, limit=BUFFER_BYTES)


async def first(dial: Dial, found: Sequence[Address], port: int) -> Pair:
    """The first that takes the connection, in the resolver's order. Raises OSError or TimeoutError of the last."""
    chosen = found[:MOST_ADDRESSES]
    async with asyncio.timeout(SECONDS):
        for address in chosen[:-1]:
            try:
                async with asyncio.timeout(SECONDS_EACH):
                    return await dial(address, port)
            except OSError:  # a TimeoutError is one
                continue
        return await dial(chosen[-1], port)
