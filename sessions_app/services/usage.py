"""What a session or an account has used: each figure with its standing, and null where it is not known."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from sessions_app.models import Account, AccountUsage, Session, SessionUsage
from sessions_app.services import steps
from sessions_app.services.steps import ModelUse
from sessions_app.states import Standing

#: A machine that was not seen alive for longer counts only until it was.
FRESH = timedelta(minutes=3)


@dataclass(frozen=True)
class Figure:
    """`value` in `unit`: seconds, bytes or tokens; null where it is not known. `observed_at`: what it was true at, null with the value."""

    value: int | None
    unit: str
    standing: Standing
    observed_at: datetime | None
    note: str = ""


@dataclass(frozen=True)
class Usage:
    """`runtime`: seconds that machines were awake. `storage`: bytes in the store after deduplication. `model`: tokens."""

    runtime: Figure
    storage: Figure
    model: Figure


def of_session(session: Session) -> Usage:
    """Up to now. Three queries for one session, whatever it has: its clock, the sums of its checkpoints, those of its model calls."""
    now = _database_now()
    return Usage(_awake(session, now), _stored(session, now), of_models(steps.model_use.call(session), now))


def of_models(used: ModelUse, now: datetime) -> Figure:
    """Billed tokens. What some calls used is not known where their gateway or provider went away: then it is at least so much."""
    if used.unknown_calls:
        note = f"At least: what {used.unknown_calls} of {used.billed_calls} calls used is not known."
        return Figure(used.tokens, "tokens", Standing.ESTIMATED, now, note)
    return Figure(used.tokens, "tokens", Standing.ACTUAL, now)


def of_account(account: Account) -> Usage:
    """Awake time as of the last hourly roll-up, deleted sessions included; stored bytes as they were last measured or added to."""
    now = _database_now()
    models = of_models(steps.account_model_use.call(account), now)
    row = AccountUsage.objects.filter(account=account).first()
    if row is None:
        return Usage(Figure(0, "seconds", Standing.ACTUAL, now), Figure(0, "bytes", Standing.ACTUAL, now), models)
    standing = Standing.ESTIMATED if row.estimated_ms else Standing.ACTUAL
    runtime = Figure(row.awake_ms // 1000, "seconds", standing, row.told_at, "As of the last hourly roll-up.")
    return Usage(runtime, _account_storage(row), models)


def _account_storage(row: AccountUsage) -> Figure:
    if row.stored_bytes is None:
        return Figure(None, "bytes", Standing.UNAVAILABLE, None, "Not measured yet; it is within minutes.")
    if row.changed_at is None:
        return Figure(row.stored_bytes, "bytes", Standing.ACTUAL, row.measured_at)
    return Figure(
        row.stored_bytes, "bytes", Standing.ESTIMATED, row.changed_at, "Saves since the last measurement are added, erasures not yet."
    )


def _awake(session: Session, now: datetime) -> Figure:
    row = SessionUsage.objects.filter(session=session).first()
    if row is None:
        return Figure(0, "seconds", Standing.ACTUAL, now, "No machine of it has run.")
    total, until, estimated, note = row.awake_ms, now, row.estimated_ms > 0, ""
    if row.estimated_ms:
        note = "Of a machine whose end nobody saw, the time until it was last seen alive is counted."
    if row.awake_since is not None and row.proved_at is not None:
        if now - row.proved_at > FRESH:
            until, estimated, note = row.proved_at, True, "Its machine was not seen alive since then."
        total += max(0, (until - row.awake_since) // timedelta(milliseconds=1))
    if row.partial:
        estimated, note = True, "Counted since this service counts; the session is older."
    return Figure(total // 1000, "seconds", Standing.ESTIMATED if estimated else Standing.ACTUAL, until, note)


def _stored(session: Session, now: datetime) -> Figure:
    held = steps.session_stored_bytes.call(session)
    if held.exact:
        return Figure(held.stored_bytes, "bytes", Standing.ACTUAL, now)
    note = "What its saves have stored and is not erased; content that it shares with others counts where it was stored first."
    return Figure(held.stored_bytes, "bytes", Standing.ESTIMATED, now, note)


def _database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
