"""API tokens: drawn, hashed, looked up, revoked. The plain token exists only in the answer that creates it."""

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from sessions_app.errors import Conflict, Forbidden, NotFound, Unauthenticated
from sessions_app.models import Account, ApiToken, Membership
from sessions_app.roles import Scope, in_order
from sessions_app.services import bounds, record
from sessions_app.services import cursor as cursors
from sessions_app.services.cursor import Page
from sessions_app.states import RecordKind

PREFIX = "ks_"
SHOWN = 8
#: `last_used_at` is written at most this often, so that reading does not become writing.
LAST_USED_GRAIN = timedelta(minutes=1)
#: How long a dead token's row is still shown.
DEAD_KEPT = timedelta(days=90)
_BATCH = 1000


def issue(
    account: Account,
    name: str,
    *,
    scopes: Iterable[str] = tuple(Scope),
    user: User | None = None,
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
    token = ApiToken.objects.select_related("account", "user").annotate(asked_at=Now()).filter(digest=digest(plain)).first()
    if token is None or not _opens(token):
        raise Unauthenticated(
            "The token is not valid: unknown, expired, revoked, or its user is no member of its account any more.",
            next_action="Sign in again, or ask for a new token.",
        )
    asked_at: datetime = token.asked_at  # the database's clock
    if token.last_used_at is None or token.last_used_at < asked_at - LAST_USED_GRAIN:
        ApiToken.objects.filter(id=token.id).update(last_used_at=Now())
    return token


def _opens(token: ApiToken) -> bool:
    """As `live`, of a token that was read with `asked_at`: every request asks, and most tokens are of no user."""
    asked_at: datetime = token.asked_at  # type: ignore[attr-defined]
    if token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= asked_at):
        return False
    if token.user is None:
        return True
    roles = Membership.objects.filter(user=token.user, account=token.account_id).values_list("role", flat=True)
    token.member_role = roles.first()  # type: ignore[attr-defined]  # as `looked_up` annotates it
    return token.user.is_active and token.member_role is not None  # type: ignore[attr-defined]


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


def revoke(token: ApiToken) -> bool:
    """It opens nothing from now on. Returns whether it was not revoked already."""
    return bool(ApiToken.objects.filter(id=token.id, revoked_at=None).update(revoked_at=Now()))


def page(account: Account, *, limit: int, cursor: str = "") -> Page[ApiToken]:
    """All tokens of the account, dead ones too, the newest first. Raises Invalid for a bad cursor."""
    return cursors.newest_first(looked_up().filter(account=account), limit=limit, cursor=cursor)


def find(account: Account, token_id: str) -> ApiToken:
    """Raises NotFound for what is no token of this account."""
    token = looked_up().filter(account=account, id=token_id[:40]).first()
    if token is None:
        raise NotFound("There is no such token. Nothing was done.", next_action="List them: GET /api/v2/tokens.")
    return token


def derive(maker: ApiToken, name: str, *, scopes: Iterable[Scope] | None, days: int | None) -> tuple[ApiToken, str]:
    """A token of the maker's account and user, with the scopes asked for (None: the maker's own), for so many days (None: no end).

    It lives on when its maker is revoked. Raises Forbidden for a scope that the maker lacks, Conflict where the account has too many.
    """
    wanted = maker.effective_scopes if scopes is None else in_order(scopes)
    for scope in wanted:
        require(maker, scope)
    with transaction.atomic():
        return grant(maker.account, name, scopes=wanted, user=maker.user, days=days, actor=maker.id)


def grant(account: Account, name: str, *, scopes: Iterable[Scope], user: User | None, days: int | None, actor: str) -> tuple[ApiToken, str]:
    """Issue a token within the account's bound, and write it down. Prerequisite: inside a transaction. Raises Conflict."""
    Account.objects.select_for_update(no_key=True).get(id=account.id)  # one at a time: the bound holds under concurrency too
    if live().filter(account=account).count() >= bounds.TOKENS:
        raise Conflict(
            f"An account has at most {bounds.TOKENS} live tokens. None was made.",
            next_action="Revoke those that are not used.",
            code="ks_quota_exceeded",
        )
    token, plain = issue(account, name, scopes=scopes, user=user, life=None if days is None else timedelta(days=days))
    _record("token.issued", token, actor)
    return token, plain


def end(token: ApiToken, *, actor: str) -> None:
    """Revoke it and write it down; one that is revoked already stays as it is."""
    with transaction.atomic():
        if revoke(token):
            _record("token.revoked", token, actor)


def forget_dead() -> int:
    """Tokens that were revoked or expired a long time ago: a batch of them is deleted. Returns how many."""
    gone = Now() - DEAD_KEPT
    dead = ApiToken.objects.filter(Q(revoked_at__lt=gone) | Q(expires_at__lt=gone)).order_by("id").values("id")[:_BATCH]
    return ApiToken.objects.filter(id__in=dead).delete()[0]


def _record(type_: str, token: ApiToken, actor: str) -> None:
    facts = {"token_id": token.id, "user_id": token.user_id, "scopes": token.scopes}
    record.write(RecordKind.LIFECYCLE, type_, account_id=token.account_id, actor=actor, facts=facts)
