"""API tokens: drawn, hashed, looked up, revoked. The plain token exists only in the answer that creates it."""

import hashlib
import secrets
from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from sessions_app.errors import Unauthenticated
from sessions_app.models import Account, ApiToken

PREFIX = "ks_"
SHOWN = 8
#: `last_used_at` is written at most this often, so that reading does not become writing.
LAST_USED_GRAIN = timedelta(minutes=1)
SCOPES = ("sessions",)


def issue(account: Account, name: str) -> tuple[ApiToken, str]:
    """A new token and its plain text (256 random bits, so a plain SHA-256 keeps it safe at rest)."""
    plain = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(account=account, name=name, prefix=plain[:SHOWN], digest=digest(plain), scopes=list(SCOPES))
    return token, plain


def digest(plain: str) -> str:
    return hashlib.sha256(plain.encode()).hexdigest()


def authenticate(plain: str) -> ApiToken:
    """The live token of that text. Raises Unauthenticated; the answer does not tell unknown from revoked or expired."""
    live = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now()))
    token = ApiToken.objects.select_related("account").filter(live, digest=digest(plain)).first()
    if token is None:
        raise Unauthenticated("The token is not valid: unknown, expired or revoked.", next_action="Sign in again, or ask for a new token.")
    stale = Q(last_used_at=None) | Q(last_used_at__lt=Now() - LAST_USED_GRAIN)
    ApiToken.objects.filter(stale, id=token.id).update(last_used_at=Now())
    return token


def revoke(token: ApiToken) -> None:
    ApiToken.objects.filter(id=token.id, revoked_at=None).update(revoked_at=Now())
