"""The head of a request to the proxy: read strictly, and written anew for the host that it goes to."""

import re
from dataclasses import dataclass

from gateway_app.egress import names
from gateway_app.egress.names import Target, Unreadable

HEAD_BYTES = 32 * 1024
END = b"\r\n\r\n"
_FIRST = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([\x21-\x7e]+) (HTTP/1\.[01])")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_MOST_FIELDS = 128
#: Between this program and this proxy, or said anew.
_ENDS_HERE = frozenset({"connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "trailer", "upgrade", "host"})
_DIGITS = re.compile(r"[0-9]{1,18}")


class NoLength(Unreadable):
    """A body whose length is not told before it."""


@dataclass(frozen=True)
class Asked:
    """`forward`: the head for the host, empty for a tunnel. `body_bytes`: so much of the request follows it, None for a tunnel."""

    method: str
    target: Target
    forward: bytes
    body_bytes: int | None


def read(data: bytes) -> Asked:
    """Of a whole head. Raises Unreadable, with why."""
    lines = data.removesuffix(END).decode("latin-1").split("\r\n")
    first = _FIRST.fullmatch(lines[0])
    if first is None:
        raise Unreadable("this is no request to an HTTP proxy")
    method, wanted, version = first.groups()
    fields = _fields(lines[1:])
    if method == "CONNECT":
        return Asked(method, names.target(wanted), b"", None)
    if wanted.startswith("/") or wanted == "*":
        raise Unreadable("this is a proxy: a request to it names a whole URL")
    target, path = names.url(wanted)
    return Asked(method, target, _forward(f"{method} {path} {version}", target, fields), _body_bytes(fields))


def _fields(lines: list[str]) -> list[tuple[str, str]]:
    if len(lines) > _MOST_FIELDS:
        raise Unreadable(f"a head has at most {_MOST_FIELDS} fields")
    found = [_FIELD.fullmatch(line) for line in lines]
    if None in found:
        raise Unreadable("a field of the head cannot be read")
    return [(one[1], one[2]) for one in found if one is not None]


def _body_bytes(fields: list[tuple[str, str]]) -> int:
    """So much is passed on and no more: what a program sends after it may be meant for another host."""
    if _values(fields, "transfer-encoding"):
        raise NoLength("over plain http a body's length is told before it (Content-Length); use https, or tell it")
    lengths = set(_values(fields, "content-length"))
    if len(lengths) > 1 or not all(map(_DIGITS.fullmatch, lengths)):
        raise Unreadable("Content-Length is not one number")
    return int(lengths.pop()) if lengths else 0


def _values(fields: list[tuple[str, str]], wanted: str) -> list[str]:
    return [value for name, value in fields if name.lower() == wanted]


def _forward(first: str, target: Target, fields: list[tuple[str, str]]) -> bytes:
    """The host is the URL's, whatever the request's own Host says."""
    named = {word.strip().lower() for value in _values(fields, "connection") for word in value.split(",")}
    ends_here = _ENDS_HERE | (named - {"content-length"})
    host = target.host if target.port == names.HTTP_PORT else f"{target.host}:{target.port}"
    kept = [f"{name}: {value}" for name, value in fields if name.lower() not in ends_here]
    return "\r\n".join([first, f"Host: {host}", *kept, "Connection: close", "", ""]).encode("latin-1")
