"""Who may open a terminal: the REST API's tokens and rules, for connections that Django does not see. Blocking; nothing here is async."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from sessions_app.api import address, pages
from sessions_app.api.auth import admitted
from sessions_app.errors import Forbidden, Invalid
from sessions_app.models import ApiToken, Session
from sessions_app.roles import Scope
from sessions_app.services import account as accounts
from sessions_app.services import session as sessions
from sessions_app.services import token as tokens
from sessions_app.services.operation import require_state
from sessions_app.states import OperationKind
from workers.terminal.shell import COLUMNS, ROWS

#: What a browser offers as subprotocols, for it cannot send a header: this one, and `bearer.` before the token. Only this one is accepted.
SUBPROTOCOL = "keepstate.console"
BEARER_SUBPROTOCOL = "bearer."


@dataclass(frozen=True)
class Visit:
    session: Session
    token: ApiToken
    plain: str  # the token itself, which is asked again while the visit lasts
    columns: int
    rows: int
    view: bool
    scope: Scope  # what the token must allow for as long as the visit lasts


def admit(
    session_id: str, headers: Mapping[str, str], query: Mapping[str, str], subprotocols: Iterable[str], *, secure: bool, client: str
) -> Visit:
    """`headers` by lower-case name, `client` is its address. Raises ServiceError; then nothing was opened, nothing has changed."""
    _require_place(headers, secure)
    plain = _bearer(headers, subprotocols)
    token = admitted(plain, address.place(client))
    view = pages.flag(query, "view")
    scope = Scope.SESSIONS_READ if view else Scope.SESSIONS_WRITE
    tokens.require(token, scope)
    if not view and token.account.closing_at is not None:
        raise accounts.closing()
    session = sessions.find(token.account, session_id)
    columns = pages.whole(query, "cols", default=80, allowed=COLUMNS)
    rows = pages.whole(query, "rows", default=24, allowed=ROWS)
    require_state(session, OperationKind.EXEC)
    return Visit(session, token, plain, columns, rows, view, scope)


def is_secure(encrypted: bool, headers: Mapping[str, str]) -> bool:
    """Whether the client's own connection is encrypted: to us, or to the proxy that is known to say so."""
    proxy = settings.SECURE_PROXY_SSL_HEADER
    name = proxy[0].removeprefix("HTTP_").replace("_", "-").lower() if proxy else ""
    return encrypted or bool(proxy and headers.get(name) == proxy[1])


def forwarded_for(headers: Mapping[str, str]) -> str:
    """The client's address as the proxy in front says it; empty where no proxy is known, for then a client may say what it likes."""
    return headers.get("x-forwarded-for", "").rpartition(",")[2].strip() if settings.SECURE_PROXY_SSL_HEADER else ""


def _require_place(headers: Mapping[str, str], secure: bool) -> None:
    """A page of another origin must not open a terminal with what its visitor's browser holds; nor may one that rebinds its own name."""
    host = headers.get("host", "")
    if not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        raise Invalid("The request is for a host that this service is not. Nothing was opened.")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower() and origin not in settings.CSRF_TRUSTED_ORIGINS:
        raise Forbidden("Pages of that origin may not open terminals here. Nothing was opened.")
    if settings.SECURE_SSL_REDIRECT and not secure:
        raise Forbidden("This service is reached over TLS only. Nothing was opened.", next_action="Use https or wss.")


def _bearer(headers: Mapping[str, str], subprotocols: Iterable[str]) -> str:
    kind, _, plain = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and plain.strip():
        return plain.strip()
    for offered in subprotocols:
        if offered.startswith(BEARER_SUBPROTOCOL):
            return offered.removeprefix(BEARER_SUBPROTOCOL)
    return ""
