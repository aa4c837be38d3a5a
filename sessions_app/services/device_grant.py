"""Signing a terminal in (RFC 8628): it polls with a secret code, a person decides on a short one, and one poll gets the one token.

The plain codes exist in the answer that makes them, the plain token in the answer of the poll that takes it; a poll whose answer is lost
leaves a token that nobody holds: it is listed, and can be revoked.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from sessions_app.errors import AccessDenied, AuthorizationPending, ExpiredCode, Forbidden, SlowDown, Throttled, WrongState
from sessions_app.models import Account, ApiToken, DeviceGrant, Membership
from sessions_app.roles import Scope, cut, in_order
from sessions_app.services import bounds
from sessions_app.services import token as tokens
from sessions_app.states import DeviceGrantState

LIFE_SECONDS = 600
INTERVAL_SECONDS = 5
#: A poll may come so much too early: the network is no metronome.
TOLERANCE_SECONDS = 1
#: No vowels, so that no words come about, and nothing that looks like something else. 8 of 20 letters: 34 bits, for ten minutes.
ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
USER_CODE_CHARACTERS = 8
DEFAULT_SCOPES = (Scope.SESSIONS_READ, Scope.SESSIONS_WRITE)
_CLIENT_CHARACTERS = 200
_BATCH = 1000


@dataclass(frozen=True)
class Codes:
    """The plain codes: they are told once and kept nowhere."""

    device_code: str
    user_code: str


def begin(*, client: str, address: str, scopes: Iterable[Scope] = DEFAULT_SCOPES) -> Codes:
    """Begin a sign-in for a terminal. Raises Throttled where as many wait for a decision as may; then nothing was written."""
    waiting = DeviceGrant.objects.filter(state=DeviceGrantState.PENDING, expires_at__gt=Now())
    if waiting.filter(address=address)[: bounds.DEVICE_GRANTS_OF_ADDRESS].count() >= bounds.DEVICE_GRANTS_OF_ADDRESS:
        raise Throttled("Too many sign-ins from this address wait for a decision. None was begun.", retry_after_seconds=60)
    if waiting[: bounds.DEVICE_GRANTS].count() >= bounds.DEVICE_GRANTS:
        raise Throttled("Too many sign-ins wait for a decision. None was begun.", retry_after_seconds=60)
    letters = "".join(secrets.choice(ALPHABET) for _ in range(USER_CODE_CHARACTERS))
    codes = Codes(secrets.token_urlsafe(32), f"{letters[:4]}-{letters[4:]}")
    DeviceGrant.objects.create(
        device_digest=tokens.digest(codes.device_code),
        user_digest=_user_digest(codes.user_code),
        requested_scopes=in_order(scopes),
        client=_printable(client),
        address=address,
        expires_at=Now() + timedelta(seconds=LIFE_SECONDS),
    )
    return codes


def find(user_code: str) -> DeviceGrant | None:
    """The sign-in of a short code that can still be decided on, however it was typed; or None."""
    return _open().filter(user_digest=_user_digest(user_code)).first()


def approve(grant: DeviceGrant, user: User, account: Account, scopes: Iterable[str]) -> list[Scope]:
    """Let the terminal act for the account with the scopes that the user's role there leaves. Returns them.

    Raises Forbidden where that is none, WrongState where it was decided already or is over.
    """
    membership = Membership.objects.filter(user=user, account=account).first()
    left = cut(scopes, membership.role if membership else None)
    if not left:
        raise Forbidden("Your role in that account allows none of what was chosen. Nothing was approved.")
    _decide(grant, DeviceGrantState.APPROVED, user=user, account=account, scopes=left)
    return left


def deny(grant: DeviceGrant) -> None:
    """Raises WrongState where it was decided already or is over."""
    _decide(grant, DeviceGrantState.DENIED)


def poll(device_code: str) -> tuple[ApiToken, str]:
    """The token and its plain text, for the first poll after the approval.

    Raises AuthorizationPending, SlowDown, AccessDenied, ExpiredCode (unknown, over or used already), or Conflict where the account has as
    many tokens as it may: the approval then still stands.
    """
    grant = (
        DeviceGrant.objects.select_related("account", "user").filter(device_digest=tokens.digest(device_code), expires_at__gt=Now()).first()
    )
    if grant is None or grant.state == DeviceGrantState.CONSUMED:
        raise _expired()
    _keep_pace(grant)
    if grant.state == DeviceGrantState.PENDING:
        raise AuthorizationPending(
            "Nobody has decided on this sign-in yet.", next_action="Ask again after the interval.", retry_after_seconds=INTERVAL_SECONDS
        )
    if grant.state == DeviceGrantState.DENIED:
        raise _denied()
    return _consume(grant)


def forget_old() -> int:
    """A batch of sign-ins that have been over for an hour. Returns how many."""
    over = DeviceGrant.objects.filter(expires_at__lt=Now() - timedelta(hours=1)).order_by("expires_at").values("id")[:_BATCH]
    return DeviceGrant.objects.filter(id__in=over).delete()[0]


def _consume(grant: DeviceGrant) -> tuple[ApiToken, str]:
    """Of polls at the same moment one passes the guarded update. What a dying process had begun is rolled back, and polled again."""
    approved = DeviceGrant.objects.filter(id=grant.id, state=DeviceGrantState.APPROVED, expires_at__gt=Now())
    with transaction.atomic():
        if not approved.update(state=DeviceGrantState.CONSUMED):
            raise _expired()
        user, account = grant.user, grant.account
        if user is not None and account is not None and _still_member(user, account):
            name = f"device: {grant.client}"[: bounds.TOKEN_NAME_CHARACTERS]
            days = settings.KEEPSTATE_TOKEN_DAYS
            return tokens.grant(account, name, scopes=in_order(grant.scopes), user=user, days=days, actor=f"user {user.pk}")
        DeviceGrant.objects.filter(id=grant.id).update(state=DeviceGrantState.DENIED)
    raise _denied()


def _still_member(user: User, account: Account) -> bool:
    return Membership.objects.filter(user=user, account=account, user__is_active=True).exists()


def _keep_pace(grant: DeviceGrant) -> None:
    pause = timedelta(seconds=INTERVAL_SECONDS - TOLERANCE_SECONDS)
    due = DeviceGrant.objects.filter(Q(polled_at=None) | Q(polled_at__lte=Now() - pause), id=grant.id)
    if not due.update(polled_at=Now()):
        raise SlowDown(
            f"A sign-in is asked after once in {INTERVAL_SECONDS} seconds.",
            next_action="Wait, then ask again with the same code.",
            retry_after_seconds=INTERVAL_SECONDS,
        )


def _open() -> QuerySet[DeviceGrant]:
    return DeviceGrant.objects.filter(state=DeviceGrantState.PENDING, expires_at__gt=Now())


def _decide(grant: DeviceGrant, state: DeviceGrantState, **values: object) -> None:
    if not _open().filter(id=grant.id).update(state=state, decided_at=Now(), **values):
        raise WrongState("This sign-in was decided already, or its time is over. Nothing was changed.", next_action="Begin again there.")


def _user_digest(user_code: str) -> str:
    typed = "".join(letter for letter in user_code.upper()[:64] if letter.isalnum())
    return salted_hmac("keepstate.device.user_code", typed, algorithm="sha256").hexdigest()


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_CLIENT_CHARACTERS]


def _expired() -> ExpiredCode:
    return ExpiredCode("The code is not known, its time is over, or it was used. No token was made.", next_action="Begin a new sign-in.")


def _denied() -> AccessDenied:
    return AccessDenied("The sign-in was denied. No token was made.", next_action="Begin a new sign-in if that was not meant.")
