"""The states and words of this app as data; docs/states.md is generated from them."""

from collections.abc import Mapping
from enum import StrEnum


class Provider(StrEnum):
    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    GEMINI = "gemini"


class Api(StrEnum):
    """What a recorded call speaks; each has a reader in `streams`."""

    ANTHROPIC = "anthropic"
    RESPONSES = "responses"
    CHAT = "chat"
    GEMINI = "gemini"


class CallState(StrEnum):
    """Of a call that was let upstream. Only a complete one may ever be replayed, and only it has a known usage."""

    OPEN = "open"  # a pump reads it, or its gateway died and nobody has said so yet
    COMPLETE = "complete"  # it ended as its protocol ends
    REFUSED = "refused"  # the provider answered with an error status
    CUT = "cut"  # it began and did not end: the provider went away, or told of an error within the stream
    UNKNOWN = "unknown"  # its gateway died: whether the provider finished and billed it is not known


_C = CallState

CALL_TRANSITIONS: Mapping[CallState, frozenset[CallState]] = {
    _C.OPEN: frozenset({_C.COMPLETE, _C.REFUSED, _C.CUT, _C.UNKNOWN}),
    _C.COMPLETE: frozenset(),
    _C.REFUSED: frozenset(),
    _C.CUT: frozenset(),
    _C.UNKNOWN: frozenset(),
}


def call_states() -> tuple[str, Mapping[CallState, frozenset[CallState]], str]:
    """For docs/states.md."""
    note = "Its row is committed before the provider hears of it. Only a complete one is ever replayed, and only its usage is known."
    return "Model call", CALL_TRANSITIONS, note


class Served(StrEnum):
    """How a request of a machine was answered. Each is a line of the usage ledger, but `continued`: that is the same answer."""

    UPSTREAM = "upstream"  # by the provider, and billed
    CONTINUED = "continued"  # the relay went on in the middle of an answer
    REPLAYED = "replayed"  # by the recorded answer of an equal request
    EXTENDED = "extended"  # by the rest of a recorded answer


class Section(StrEnum):
    """Which side of a call a recorded piece belongs to."""

    REQUEST = "request"
    RESPONSE = "response"


class EgressMode(StrEnum):
    DENY = "deny"
    ALLOW_LIST = "allow_list"


class EgressOutcome(StrEnum):
    """What became of a connection that a machine asked for."""

    CONNECTED = "connected"
    CUT = "cut"  # it was open, and the policy or the session's state lets it through no more
    DENIED = "denied"  # by the session's policy
    ADDRESS = "address"  # it names an address instead of a host
    FORBIDDEN = "forbidden"  # the host's name leads where no machine may connect to
    UNRESOLVED = "unresolved"
    UNREACHABLE = "unreachable"
