"""Who calls: decided by the machine's own channel, never by what a request says."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from gateway_app.states import Provider

PREFIX = "ks-guest-"
_CODE_CHARACTERS = 32
#: Where clients put a credential, in the order in which it is looked for.
CREDENTIAL_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")
#: Beginnings of providers' own keys. One of them in a guest is an accident that its owner must hear of.
_REAL_KEYS = ("sk-", "AIza")


@dataclass(frozen=True)
class Channel:
    """A machine's way to the gateway. `line`: the session and its ancestors, for a fork's memory holds the credential of its parent."""

    account_id: str
    session_id: str
    epoch: int
    line: frozenset[str]


def credential(session_id: str, secret: bytes) -> str:
    """What programs of the session are given in place of a provider's key. It opens its own channel, and nothing else anywhere."""
    return f"{PREFIX}{session_id}-{_code(session_id, secret)}"


def _code(session_id: str, secret: bytes) -> str:
    return hmac.new(secret, f"guest credential {session_id}".encode(), hashlib.sha256).hexdigest()[:_CODE_CHARACTERS]


def shown(headers: Mapping[str, str], query_key: str = "") -> str:
    for name in CREDENTIAL_HEADERS:
        value = headers.get(name, "")
        if value:
            return value[7:].strip() if value[:7].lower() == "bearer " else value
    return query_key


def admits(channel: Channel, token: str, secret: bytes) -> bool:
    """Whether the credential is of this session, or of one that it was forked from."""
    if not token.isascii():
        return False
    session_id, _, code = token.removeprefix(PREFIX).rpartition("-")
    good = hmac.compare_digest(code.encode(), _code(session_id, secret).encode())
    return token.startswith(PREFIX) and good and session_id in channel.line


def looks_real(token: str) -> bool:
    return token.startswith(_REAL_KEYS)


def key_header(provider: Provider, secret: str, bearer: bool) -> tuple[str, str]:
    """How the provider wants its key; `bearer`: the client sent its credential as a bearer token to a provider that takes both."""
    if provider == Provider.GEMINI:
        return "x-goog-api-key", secret
    if provider == Provider.ANTHROPIC and not bearer:
        return "x-api-key", secret
    return "authorization", f"Bearer {secret}"
