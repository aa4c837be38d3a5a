"""Bearer tokens. Who calls is always the account of a live token; no cookie counts here."""

from typing import Any, NamedTuple

import structlog
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from sessions_app.api import address
from sessions_app.errors import Unauthenticated
from sessions_app.models import Account, ApiToken
from sessions_app.roles import Scope
from sessions_app.services import throttle
from sessions_app.services import token as tokens


class Needs(NamedTuple):
    """The scope that a route needs of a token to be read, and for every other method; None: any live token will do."""

    reading: Scope | None
    writing: Scope | None


SESSIONS = Needs(Scope.SESSIONS_READ, Scope.SESSIONS_WRITE)
#: A route whose POST changes nothing.
SESSIONS_READ = Needs(Scope.SESSIONS_READ, Scope.SESSIONS_READ)
SESSIONS_WRITE = Needs(Scope.SESSIONS_WRITE, Scope.SESSIONS_WRITE)
ACCOUNT = Needs(Scope.ACCOUNT_MANAGE, Scope.ACCOUNT_MANAGE)
ANY_TOKEN = Needs(None, None)


class Caller:
    """What the framework calls a user: the token that was shown, and its account."""

    is_authenticated = True

    def __init__(self, token: ApiToken):
        self.token = token
        self.account: Account = token.account


def admitted(plain: str, place: str) -> ApiToken:
    """The live token of that text, within its rates; whoever has none asks no oftener than his place may.

    A place that sends wrong tokens does not lock out those who send right ones from it. Raises Unauthenticated or Throttled.
    """
    try:
        if not plain:
            raise Unauthenticated("No token was sent.", next_action="Send the header Authorization: Bearer <token>.")
        token = tokens.authenticate(plain)
    except Unauthenticated:
        throttle.require(throttle.of_address(place))
        raise
    throttle.require(throttle.of_token(token))
    return token


class PerAddress(BaseThrottle):
    """For routes that take no token."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        throttle.require(throttle.of_address(address.bucket(request)))
        return True


class BearerAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Caller, ApiToken]:
        """Raises Unauthenticated for a missing, malformed, unknown, expired or revoked token, Throttled for too many requests."""
        kind, _, plain = request.headers.get("Authorization", "").partition(" ")
        token = admitted(plain.strip() if kind.lower() == "bearer" else "", address.bucket(request))
        structlog.contextvars.bind_contextvars(account_id=token.account_id)
        return Caller(token), token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="keepstate"'


class HasScope(BasePermission):
    """The token has the scope that the view's `needs` name for the method. A view that names none takes an account's manager alone."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.auth, ApiToken):
            raise Unauthenticated("No token was sent.", next_action="Send the header Authorization: Bearer <token>.")
        needs: Needs = getattr(view, "needs", ACCOUNT)
        scope = needs.reading if request.method in SAFE_METHODS else needs.writing
        if scope is not None:
            tokens.require(request.auth, scope)
        return True


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = BearerAuthentication
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
