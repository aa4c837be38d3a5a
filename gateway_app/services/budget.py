"""What a session and an account may spend on model calls, in tokens and in money; the data path asks before each call.

Whoever is over a budget is told so before a call leaves, and its session is saved and parked (services/budget_watch.py). To change a limit
begins the warnings anew and wakes nothing.
"""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from gateway_app.models import AccountBudget, SessionBudget
from gateway_app.services import live
from sessions_app.errors import Conflict, Invalid
from sessions_app.models import Account, Session
from sessions_app.services import account as accounts
from sessions_app.services import bounds, event, record, revision
from sessions_app.states import RecordKind

#: Of a limit, in percent: from here on its owner is warned.
WARN_PERCENT = 80
MICROUSD = range(1, 10**15)


@dataclass(frozen=True)
class Limits:
    """None: no limit."""

    tokens: int | None
    microusd: int | None


@dataclass(frozen=True)
class Standing:
    """Limits and what was spent of them. `state`: within, warned (80 % of one are spent) or over."""

    limits: Limits
    spent_tokens: int
    spent_microusd: int
    unknown_calls: int
    unpriced_calls: int
    revision: int

    @property
    def state(self) -> str:
        parts = [(self.spent_tokens, self.limits.tokens), (self.spent_microusd, self.limits.microusd)]
        if any(limit is not None and spent >= limit for spent, limit in parts):
            return "over"
        return "warned" if any(limit is not None and spent * 100 >= WARN_PERCENT * limit for spent, limit in parts) else "within"


def of_session(session: Session) -> Standing:
    row = SessionBudget.objects.filter(session=session).first() or SessionBudget(session=session)
    return _standing(row, Limits(session.budget_tokens, row.microusd), session.revision)


def of_account(account: Account) -> Standing:
    """Over all of the account's sessions, deleted ones included. Its revision is 0 until limits are set."""
    row = AccountBudget.objects.filter(account=account).first() or AccountBudget(account=account)
    return _standing(row, Limits(row.tokens, row.microusd), row.revision)


def _standing(row: SessionBudget | AccountBudget, limits: Limits, at: int) -> Standing:
    return Standing(limits, row.spent_tokens, row.spent_microusd, row.unknown_calls, row.unpriced_calls, at)


@transaction.atomic
def set_for_session(session: Session, limits: Limits, *, expected_revision: int) -> Standing:
    """Both limits of it; a session always has one in tokens. Raises Invalid, WrongState, or Conflict for a session that has moved on.

    Asking for what is so already changes nothing, whatever revision it names.
    """
    if limits.tokens is None:
        raise Invalid("A session has a budget of tokens. Nothing was changed.")
    require(limits)
    accounts.require_open(session.account_id)
    session = live.lock(session)
    row, _ = SessionBudget.objects.get_or_create(session=session)
    if (session.budget_tokens, row.microusd) != (limits.tokens, limits.microusd):
        revision.advance(session, expected_revision)
        Session.objects.filter(id=session.id).update(budget_tokens=limits.tokens)
        SessionBudget.objects.filter(session=session).update(microusd=limits.microusd, **_ANEW)
        event.append(session.id, "session.budget", {"tokens": limits.tokens, "microusd": limits.microusd}, source="api")
        session.refresh_from_db()
    return of_session(session)


@transaction.atomic
def set_for_account(account: Account, limits: Limits, *, expected_revision: int, actor: str) -> Standing:
    """Both limits. Raises Invalid, AccountClosing, or Conflict for a budget that has moved on; then nothing was changed."""
    require(limits)
    accounts.require_open(account.id)
    AccountBudget.objects.bulk_create([AccountBudget(account=account)], ignore_conflicts=True)
    row = AccountBudget.objects.select_for_update(no_key=True).get(account=account)
    if (row.tokens, row.microusd) != (limits.tokens, limits.microusd):
        if row.revision != expected_revision:
            raise Conflict(
                f"The budget is at revision {row.revision}; the request was made for {expected_revision}. Nothing was changed.",
                next_action="Read it again, then decide again.",
                facts={"revision": row.revision, "expected_revision": expected_revision},
                code="ks_revision_conflict",
            )
        AccountBudget.objects.filter(account=account).update(tokens=limits.tokens, microusd=limits.microusd, revision=F("revision") + 1)
        SessionBudget.objects.filter(session__account=account, warned_at__isnull=False).update(**_ANEW)
        facts = {"tokens": limits.tokens, "microusd": limits.microusd}
        record.write(RecordKind.LIFECYCLE, "account.budget", account_id=account.id, actor=actor, facts=facts)
    return of_account(account)


_ANEW: dict[str, Any] = {"warned_at": None, "exhausted_at": None, "exhausted_epoch": None}


def require(limits: Limits) -> None:
    if limits.tokens is not None and limits.tokens not in bounds.BUDGET_TOKENS:
        least, most = bounds.BUDGET_TOKENS.start, bounds.BUDGET_TOKENS.stop - 1
        raise Invalid(f"A budget is a whole number of tokens from {least} to {most}. Nothing was changed.")
    if limits.microusd is not None and limits.microusd not in MICROUSD:
        raise Invalid("A budget in dollars is more than 0 and less than 1000000000. Nothing was changed.")


def inherit(parent: Session, child: Session) -> None:
    """A fork's child has its parent's limit in money, and has spent nothing. Prerequisite: inside the commit that makes it."""
    limit = SessionBudget.objects.filter(session=parent).values_list("microusd", flat=True).first()
    SessionBudget.objects.create(session=child, microusd=limit)
