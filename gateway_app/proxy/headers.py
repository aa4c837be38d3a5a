"""Which headers go to a provider and which come back."""

from collections.abc import Iterable, Mapping

from gateway_app.proxy.channel import CREDENTIAL_HEADERS

#: Hop by hop, or about a body that is sent anew, or of a credential, or of our own: they end here.
_ENDS_HERE = frozenset(
    {
        *CREDENTIAL_HEADERS,
        *("host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"),
        *("content-length", "content-encoding", "accept-encoding", "expect", "cookie", "forwarded", "x-forwarded-for", "x-real-ip"),
    }
)
_OURS = "x-keepstate-"
_NOT_BACK = frozenset(
    {
        *("connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "trailer", "upgrade"),
        "set-cookie",
    }
)


def upstream(headers: Mapping[str, str]) -> dict[str, str]:
    """By lower-case name. Compressed answers are not asked for: what is recorded is what is read."""
    of_this_hop = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    ends_here = _ENDS_HERE | of_this_hop
    kept = {name: value for name, value in headers.items() if name not in ends_here and not name.startswith(_OURS)}
    return {**kept, "accept-encoding": "identity"}


def back(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """As pairs, for a name may come twice."""
    return [(name, value) for name, value in headers if name.lower() not in _NOT_BACK and clean(value)]


def clean(value: str) -> bool:
    """Whether it can be written down and sent on: bytes that are no UTF-8 are in a header by an accident or on purpose, and say nothing."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
