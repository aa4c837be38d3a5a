"""Where a webhook may go: never to a private, link-local, metadata or otherwise inner address, whatever its name resolves to.

The name is resolved once for each attempt, every address that it has is judged, and the connection goes to an address that was judged: a
name that resolves to another address a moment later gains nothing.
"""

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from django.conf import settings

from sessions_app.errors import Invalid

URL_CHARACTERS = 500
_PORTS = {"https": 443, "http": 80}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ADVICE = "Give an https:// URL of a host that the whole internet can reach."


@dataclass(frozen=True)
class Target:
    """An endpoint's URL in parts; `path` holds the query."""

    scheme: str
    host: str
    port: int
    path: str


class Unreachable(Exception):
    """The message was not sent; the text says why, and may be shown to the endpoint's owner."""


def parse(url: str) -> Target:
    """Raises Invalid for what is no plain https URL (http only to networks that the operator has allowed)."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid("The URL of the webhook is malformed. Nothing was changed.", next_action=_ADVICE) from None
    plain = len(url) <= URL_CHARACTERS and url.isascii() and url.isprintable() and " " not in url
    allowed = parts.scheme == "https" or (parts.scheme == "http" and bool(settings.KEEPSTATE_WEBHOOK_NETWORKS))
    if not (plain and allowed and host and port != 0) or parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid(
            f"A webhook's URL is https, without credentials and fragment, at most {URL_CHARACTERS} ASCII characters. Nothing was changed.",
            next_action=_ADVICE,
        )
    _require_literal_allowed(host)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path)


def _require_literal_allowed(host: str) -> None:
    """A name is judged when it is resolved; an address in the URL itself is refused at once."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    if not allowed_address(address):
        raise Invalid("A webhook goes to no private, local or reserved address. Nothing was changed.", next_action=_ADVICE)


def resolve(target: Target) -> str:
    """The address to connect to. Raises Unreachable if the name has none, or any that is not allowed."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unreachable("the host's name does not resolve") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    if not addresses:
        raise Unreachable("the host's name has no address")
    if not all(allowed_address(ipaddress.ip_address(address)) for address in addresses):
        raise Unreachable("the host's name leads to a private, local or reserved address")
    return addresses[0]


def allowed_address(address: IPv4Address | IPv6Address) -> bool:
    """Whether it is a public one, or in a network that the operator has allowed. What stands within an IPv6 address counts as itself."""
    inner = _within(address)
    if inner is not None:
        return allowed_address(inner)
    networks: Sequence[str] = settings.KEEPSTATE_WEBHOOK_NETWORKS
    if any(address in ipaddress.ip_network(network) for network in networks):
        return True
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _within(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
