"""Bearer tokens. Who calls is always the account of a live token; no cookie counts here."""

from typing import Any

import structlog
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from sessions_app.errors import Forbidden, Unauthenticated
from sessions_app.models import Account, ApiToken
from sessions_app.services import token as tokens

SCOPE = "sessions"


class Caller:
    """What the framework calls a user: the token that was shown, and its account."""

    is_authenticated = True

    def __init__(self, token: ApiToken):
        self.token = token
        self.account: Account = token.account


class BearerAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Caller, ApiToken]:
        """Raises Unauthenticated for a missing, malformed, unknown, expired or revoked token."""
        kind, _, plain = request.headers.get("Authorization", "").partition(" ")
        plain = plain.strip()
        if kind.lower() != "bearer" or not plain:
            raise Unauthenticated("No token was sent.", next_action="Send the header Authorization: Bearer <token>.")
        token = tokens.authenticate(plain)
        structlog.contextvars.bind_contextvars(account_id=token.account_id)
        return Caller(token), token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="keepstate"'


class HasScope(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.auth, ApiToken):
            raise Unauthenticated("No token was sent.", next_action="Send the header Authorization: Bearer <token>.")
        if SCOPE not in request.auth.scopes:
            raise Forbidden(f"The token lacks the scope {SCOPE!r}. Nothing was done.", next_action="Use a token that has it.")
        return True


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = BearerAuthentication
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
