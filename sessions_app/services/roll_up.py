"""Usage lines of the service record: what was used since the last line, once an hour, and when a session is gone.

What is told stands in the counting row in the same commit as the line, so a line is written once, whatever dies and however
often it is tried.
"""

from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from sessions_app.models import AccountUsage, Session, SessionUsage
from sessions_app.services import record, steps, stored
from sessions_app.services.steps import ModelUse
from sessions_app.states import RecordKind, Standing

EVERY = timedelta(hours=1)
BATCH = 200
TURNS = 10  # batches of one turn: the queue has other work
ACTOR = "beat"


def run_turn() -> int:
    """The beat's turn: measure what has changed in the store, then tell what is due, some batches of it. Returns how many rows."""
    done = stored.measure_due()
    for _ in range(TURNS):
        told = run_due()
        done += told
        if told < BATCH:
            break
    return done


def run_due() -> int:
    """Tell what is due, a batch of it. Returns how many rows were looked at; a full batch says that more may be due."""
    untold = Q(awake_since__isnull=False) | Q(awake_ms__gt=F("told_ms"))
    sessions = SessionUsage.objects.filter(Q(told_at__isnull=True) | Q(told_at__lt=Now() - EVERY), untold).order_by(
        F("told_at").asc(nulls_first=True)
    )
    due = list(sessions.values_list("session_id", flat=True)[:BATCH])
    for session_id in due:
        tell(session_id, due_only=True)
    measured = AccountUsage.objects.filter(Q(stored_told_at__isnull=True) | Q(stored_told_at__lt=Now() - EVERY), measured_at__isnull=False)
    accounts = list(measured.order_by(F("stored_told_at").asc(nulls_first=True)).values_list("account_id", flat=True)[:BATCH])
    for account_id in accounts:
        _tell_stored(account_id)
    return len(due) + len(accounts)


@transaction.atomic
def tell(session_id: str, *, due_only: bool = False) -> None:
    """One line for what the session was awake since its last one, as far as its machine was seen alive, and what it has used of models.
    Nothing new: no line.

    The account's row is locked first and the session's after it, as a publication does.
    """
    account_id = Session.objects.values_list("account_id", flat=True).filter(id=session_id).first()
    if account_id is None:
        return  # its account was erased a moment ago
    AccountUsage.objects.bulk_create([AccountUsage(account_id=account_id, stored_bytes=0)], ignore_conflicts=True)
    sums = AccountUsage.objects.filter(account_id=account_id)
    list(sums.select_for_update(no_key=True).values_list("pk"))
    rows = SessionUsage.objects.filter(session_id=session_id)
    if due_only:
        rows = rows.filter(Q(told_at__isnull=True) | Q(told_at__lt=Now() - EVERY))
    row = rows.select_for_update(no_key=True).first()
    if row is None:
        return
    total = row.awake_ms + _open_ms(row)
    awake, estimated = total - row.told_ms, row.estimated_ms - row.told_estimated_ms
    SessionUsage.objects.filter(session_id=session_id).update(told_ms=total, told_estimated_ms=row.estimated_ms, told_at=Now())
    used = steps.tell_model_use.call(session_id)
    if awake > 0 or used != ModelUse():
        _write_line(account_id, row, awake, estimated, used)
    if awake > 0:
        sums.update(awake_ms=F("awake_ms") + awake, estimated_ms=F("estimated_ms") + estimated, told_at=Now())


def _open_ms(row: SessionUsage) -> int:
    """Of a machine that is awake, until it was last seen alive: what is told never has to be taken back."""
    if row.awake_since is None or row.proved_at is None:
        return 0
    return max(0, (row.proved_at - row.awake_since) // timedelta(milliseconds=1))


def _write_line(account_id: str, row: SessionUsage, awake: int, estimated: int, used: ModelUse) -> None:
    """Tokens and money of calls of which they are known; the counts of the others stand beside them."""
    facts = {
        "awake_ms": awake,
        "estimated_ms": estimated,
        "awake_standing": Standing.ESTIMATED if estimated else Standing.ACTUAL,
        "tokens": used.tokens,
        "tokens_standing": Standing.ESTIMATED if used.unknown_calls else Standing.ACTUAL,
        "unknown_calls": used.unknown_calls,
        "microusd": None if used.unpriced_calls else used.microusd,
        "since": row.told_at.isoformat() if row.told_at else None,
    }
    record.write(RecordKind.USAGE, "usage.awake", account_id=account_id, session_id=row.session_id, actor=ACTOR, facts=facts)


@transaction.atomic
def _tell_stored(account_id: str) -> None:
    rows = AccountUsage.objects.filter(Q(stored_told_at__isnull=True) | Q(stored_told_at__lt=Now() - EVERY), account_id=account_id)
    row = rows.select_for_update(no_key=True).first()
    if row is None:
        return
    AccountUsage.objects.filter(account_id=account_id).update(stored_told_at=Now())
    if row.stored_bytes:
        facts = {
            "stored_bytes": row.stored_bytes,
            "stored_standing": Standing.ESTIMATED if row.changed_at else Standing.ACTUAL,
            "measured_at": row.measured_at.isoformat() if row.measured_at else None,
        }
        record.write(RecordKind.USAGE, "usage.stored", account_id=account_id, actor=ACTOR, facts=facts)
