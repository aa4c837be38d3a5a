"""Where a request comes from, as far as the server in front can know it."""

import ipaddress

from django.http import HttpRequest
from rest_framework.request import Request

_IPV6_PREFIX = 64


def of(request: HttpRequest | Request) -> str:
    """The client's address, as text; empty where there is none (a unix socket).

    Headers of a proxy were looked at before Django, and only where a proxy is known to be there (keepstate_site/serve.py).
    """
    return _parsed(request.META.get("REMOTE_ADDR", "")) or ""


def bucket(request: HttpRequest | Request) -> str:
    """What is counted as one place: an IPv4 address, or the /64 that one IPv6 customer has all of."""
    return place(request.META.get("REMOTE_ADDR", ""))


def place(text: str) -> str:
    """The same of an address that is no request's."""
    text = _parsed(text) or ""
    if ":" not in text:
        return text
    return str(ipaddress.IPv6Network((text, _IPV6_PREFIX), strict=False).network_address)


def _parsed(text: str) -> str | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
