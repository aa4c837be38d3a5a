"""What sessions and accounts have used of models: kept sums for all of it, the ledger's lines added up by model for one session."""

from typing import Any

from django.db.models import Count, Max, Q, Sum

from gateway_app import pricing
from gateway_app.models import AccountBudget, SessionBudget, UsageEntry
from sessions_app.models import Account, Session
from sessions_app.services.steps import ModelBook, ModelLine, ModelUse

#: Lines of one answer. A session calls few models; a guest that invents names of models gets no longer answer for it.
MOST_LINES = 100


def of_session(session: Session) -> ModelUse:
    """One row, whatever it has called."""
    row = SessionBudget.objects.filter(session=session).first() or SessionBudget(session=session)
    return ModelUse(
        tokens=row.spent_tokens,
        microusd=row.spent_microusd,
        billed_calls=row.billed_calls,
        unknown_calls=row.unknown_calls,
        unpriced_calls=row.unpriced_calls,
        replayed_calls=row.replayed_calls,
        replayed_tokens=row.replayed_tokens,
    )


def of_account(account: Account) -> ModelUse:
    """Deleted sessions included."""
    row = AccountBudget.objects.filter(account=account).first() or AccountBudget(account=account)
    return ModelUse(row.spent_tokens, row.spent_microusd, row.billed_calls, row.unknown_calls, row.unpriced_calls)


def book(session: Session) -> ModelBook:
    """Reads the session's whole ledger: some milliseconds for ten thousand calls."""
    limit = SessionBudget.objects.filter(session=session).values_list("microusd", flat=True).first()
    return ModelBook(of_session(session), _lines(session), limit, price_book())


def price_book() -> str:
    return str(pricing.table()["version"])


def _lines(session: Session) -> list[ModelLine]:
    grouped = UsageEntry.objects.filter(session=session).values("provider", "model", "key_id", "billed").annotate(
        calls=Count("id"),
        input=Sum("input_tokens"),
        output=Sum("output_tokens"),
        cache_read=Sum("cache_read_tokens"),
        cache_write=Sum("cache_write_tokens"),
        money=Sum("microusd"),
        unknown=Count("id", filter=Q(input_tokens__isnull=True) | Q(output_tokens__isnull=True)),
        unpriced=Count("id", filter=Q(microusd__isnull=True)),
        prices=Max("price_version"),
        newest=Max("recorded_at"),
    )  # fmt: skip
    return [_line(dict(row)) for row in grouped.order_by("provider", "model", "key_id", "-billed")[:MOST_LINES]]


def _line(row: dict[str, Any]) -> ModelLine:
    """A partial sum is not a sum."""
    known = not row["unknown"]
    total = sum(row[name] or 0 for name in ("input", "output", "cache_read", "cache_write"))
    return ModelLine(
        provider=row["provider"],
        model=row["model"],
        key_id=row["key_id"],
        billed=row["billed"],
        calls=row["calls"],
        input_tokens=row["input"] if known else None,
        output_tokens=row["output"] if known else None,
        tokens=total if known else None,
        microusd=0 if not row["billed"] else row["money"] if not row["unpriced"] else None,
        price_version=row["prices"],
        observed_at=row["newest"],
    )


def tell(session_id: str) -> ModelUse:
    """What is new since the last time, marked as told. Prerequisite: inside the commit that writes it down."""
    row = SessionBudget.objects.select_for_update(no_key=True).filter(session_id=session_id).first()
    if row is None:
        return ModelUse()
    new = ModelUse(
        tokens=row.spent_tokens - row.told_tokens,
        microusd=row.spent_microusd - row.told_microusd,
        unknown_calls=row.unknown_calls - row.told_unknown_calls,
        unpriced_calls=row.unpriced_calls - row.told_unpriced_calls,
    )
    SessionBudget.objects.filter(session_id=session_id).update(
        told_tokens=row.spent_tokens,
        told_microusd=row.spent_microusd,
        told_unknown_calls=row.unknown_calls,
        told_unpriced_calls=row.unpriced_calls,
    )
    return new
