"""What a machine asks for, read strictly: a host by its name and a port. An address is never one, in whatever spelling."""

import re
from dataclasses import dataclass

NAME_CHARACTERS = 253
LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
#: A name with a dot; its last label begins with a letter, as none of an address does (0x7f.1, 2130706433, 127.1).
NAME = rf"(?:{LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?"
PORTS = range(1, 65535 + 1)
_NAME = re.compile(NAME)
_ADDRESS = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.DOTALL)
_URL = re.compile(r"http://([^/?#]*)(/[^#]*|\?[^#]*)?", re.IGNORECASE)
HTTP_PORT = 80


class Unreadable(ValueError):
    """What was asked for is no host and port."""


class IsAddress(Unreadable):
    """It names a host by its address."""


@dataclass(frozen=True)
class Target:
    """`host`: a name in lower case, without the dot of the root."""

    host: str
    port: int


def target(authority: str, default_port: int | None = None) -> Target:
    """Of `host:port`. Raises Unreadable, IsAddress among them."""
    host, colon, port = authority.partition(":")
    host = host.lower()
    if _ADDRESS.fullmatch(host) or host.startswith("[") or ":" in port:
        raise IsAddress("a host is named, not given as an address")
    host = host.removesuffix(".")
    if len(host) > NAME_CHARACTERS or not _NAME.fullmatch(host):
        raise Unreadable("the host is no full name in letters, digits, hyphens and dots")
    if not colon and default_port is not None:
        return Target(host, default_port)
    return Target(host, _port(port))


def _port(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) in PORTS:
        return int(text)
    raise Unreadable(f"the port is no number from {PORTS.start} to {PORTS.stop - 1}")


def url(text: str) -> tuple[Target, str]:
    """The target of an absolute http URL, and its path with its query. Raises Unreadable."""
    found = _URL.fullmatch(text)
    if found is None:
        raise Unreadable("the target is no http:// URL; for https use CONNECT")
    if "@" in found[1]:
        raise Unreadable("a URL with a user in it is not taken")
    path = found[2] or "/"
    return target(found[1], HTTP_PORT), path if path.startswith("/") else f"/{path}"
