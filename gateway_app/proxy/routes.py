"""Which path is which provider's, and what becomes of it: data. docs/operations/gateway.md has the same table."""

import re
from dataclasses import dataclass
from enum import StrEnum

from gateway_app.states import Api, Provider


class Way(StrEnum):
    RECORDED = "recorded"  # a model call: recorded, replayed, billed
    PASSED = "passed"  # to the provider with the session's key, unrecorded; it makes no tokens
    ANSWERED = "answered"  # here, at once
    UPGRADE_REFUSED = "upgrade_refused"  # a WebSocket: 426 sends the clients that try it to plain HTTP at once
    REFUSED = "refused"  # nothing of a provider that is let through


@dataclass(frozen=True)
class Route:
    way: Way
    provider: Provider | None = None
    api: Api | None = None
    streams: bool | None = None  # by its path; None: by the body


#: A model's name in a path: no escapes and no dots alone, so that a provider reads the path as it is read here.
_NAME = r"[A-Za-z0-9][\w.@+-]*"
_GEMINI_MODEL = rf"/v1(?:beta|alpha)?/models/{_NAME}"

_TABLE: tuple[tuple[str, str, Route], ...] = (
    ("POST", r"/v1/messages", Route(Way.RECORDED, Provider.ANTHROPIC, Api.ANTHROPIC)),
    ("POST", r"/v1/messages/count_tokens", Route(Way.PASSED, Provider.ANTHROPIC)),
    ("POST", r"/v1/chat/completions", Route(Way.RECORDED, Provider.OPENAI, Api.CHAT)),
    ("POST", r"/v1/responses", Route(Way.RECORDED, Provider.OPENAI, Api.RESPONSES)),
    ("GET", r"/v1/responses", Route(Way.UPGRADE_REFUSED)),
    ("POST", _GEMINI_MODEL + r":generateContent", Route(Way.RECORDED, Provider.GEMINI, Api.GEMINI, streams=False)),
    ("POST", _GEMINI_MODEL + r":streamGenerateContent", Route(Way.RECORDED, Provider.GEMINI, Api.GEMINI, streams=True)),
    ("POST", _GEMINI_MODEL + r":countTokens", Route(Way.PASSED, Provider.GEMINI)),
    ("GET", rf"/v1beta/models(?:/{_NAME})?", Route(Way.PASSED, Provider.GEMINI)),
    ("HEAD", r"/|/api/hello", Route(Way.ANSWERED)),
    ("GET", r"/|/api/hello", Route(Way.ANSWERED)),
)
_COMPILED = tuple((method, re.compile(pattern, re.ASCII), route) for method, pattern, route in _TABLE)
_MODELS = re.compile(rf"/v1/models(?:/{_NAME}(?::[\w.@+:-]*)?)?", re.ASCII)  # names of tuned models have colons
REFUSED = Route(Way.REFUSED)


def route(method: str, path: str, *, anthropic: bool) -> Route:
    """`path` as it came, escapes and all, without its query.

    `anthropic`: the request bears that provider's version header, which tells whose /v1/models it wants.
    """
    if method == "GET" and _MODELS.fullmatch(path):
        return Route(Way.PASSED, Provider.ANTHROPIC if anthropic else Provider.OPENAI)
    for wanted, pattern, found in _COMPILED:
        if wanted == method and pattern.fullmatch(path):
            return found
    return REFUSED
