"""API tokens: drawn, hashed, looked up, revoked. The plain token exists only in the answer that creates it."""

import hashlib
import secrets
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from sessions_app.errors import Forbidden, Unauthenticated
from sessions_app.models import Account, ApiToken, Membership
from sessions_app.roles import Scope, in_order

PREFIX = "ks_"
SHOWN = 8
#: `last_used_at` is written at most this often, so that reading does not become writing.
LAST_USED_GRAIN = timedelta(minutes=1)


def issue(
    account: Account,
    name: str,
    *,
    scopes: Iterable[str] = tuple(Scope),
    user: AbstractBaseUser | None = None,
    life: timedelta | None = None,
) -> tuple[ApiToken, str]:
    """A new token and its plain text (256 random bits, so a plain SHA-256 keeps it safe at rest). It expires after `life`, None: never.

    Whoever issues it has judged whether the user may have it; what it can do is cut by the user's role at each of its requests.
    """
    plain = PREFIX + secrets.token_urlsafe(32)
    values: dict[str, Any] = {"expires_at": None if life is None else Now() + life, "scopes": in_order(scopes), "user": user}
    token = ApiToken.objects.create(account=account, name=name, prefix=plain[:SHOWN], digest=digest(plain), **values)
    return looked_up().get(id=token.id), plain


def digest(plain: str) -> str:
    return hashlib.sha256(plain.encode()).hexdigest()


def looked_up() -> QuerySet[ApiToken]:
    """Tokens with their account, their user, and the role that the user has in the account now; one query."""
    memberships = Membership.objects.filter(user=OuterRef("user"), account=OuterRef("account"))
    return ApiToken.objects.select_related("account", "user").annotate(member_role=Subquery(memberships.values("role")[:1]))


def live() -> QuerySet[ApiToken]:
    """Those that open something now: neither revoked nor expired, and of no user or of an active one who is a member."""
    in_time = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now()))
    return looked_up().filter(in_time & (Q(user=None) | Q(user__is_active=True, member_role__isnull=False)))


def authenticate(plain: str) -> ApiToken:
    """The live token of that text. Raises Unauthenticated; the answer does not tell why it is none."""
    token = live().filter(digest=digest(plain)).first()
    if token is None:
        raise Unauthenticated(
            "The token is not valid: unknown, expired, revoked, or its user is no member of its account any more.",
            next_action="Sign in again, or ask for a new token.",
        )
    stale = Q(last_used_at=None) | Q(last_used_at__lt=Now() - LAST_USED_GRAIN)
    ApiToken.objects.filter(stale, id=token.id).update(last_used_at=Now())
    return token


def require(token: ApiToken, scope: Scope) -> None:
    """Raises Forbidden, naming the scope that the token lacks, or that its user's role does not leave it."""
    if scope in token.effective_scopes:
        return
    if scope in token.scopes:
        message = f"The role {token.role} does not allow {scope}."
        raise Forbidden(f"{message} Nothing was done.", next_action="Ask an owner of the account.", facts={"missing_scope": scope})
    raise Forbidden(
        f"The token lacks the scope {scope}. Nothing was done.", next_action="Use a token that has it.", facts={"missing_scope": scope}
    )


def revoke(token: ApiToken) -> None:
    ApiToken.objects.filter(id=token.id, revoked_at=None).update(revoked_at=Now())
