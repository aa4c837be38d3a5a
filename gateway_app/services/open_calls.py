"""Calls whose gateway died: nobody reads them any more, so they end as unknown, and so does what was billed for them."""

from datetime import timedelta

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from gateway_app.models import AccountBudget, Call, SessionBudget, UsageEntry
from gateway_app.proxy.rows import SILENT_SECONDS
from gateway_app.states import CallState, Served

SILENT = timedelta(seconds=SILENT_SECONDS)
BATCH = 100

_END = """
UPDATE gateway_app_call SET state = 'unknown', ended = nextval('gateway_app_tick'), ended_at = statement_timestamp(), pump = ''
WHERE id = %s AND state = 'open'
  AND (pump = %s OR pump_seen_at IS NULL OR pump_seen_at < statement_timestamp() - make_interval(secs => %s))
"""
_NOBODY = "nobody"


def end_silent() -> int:
    """A batch of them, each in a commit of its own. Two that run at once end none twice. Returns how many."""
    silent = Call.objects.filter(state=CallState.OPEN, pump_seen_at__lt=Now() - SILENT).order_by("pump_seen_at")
    return sum(_end(call) for call in silent.defer("headers")[:BATCH])


def end_of(pump: str) -> int:
    """All that a gateway process left open, which is known to have ended. Safe to repeat. Returns how many."""
    ended = 0
    while left := list(Call.objects.filter(state=CallState.OPEN, pump=pump).defer("headers")[:BATCH]):
        ended += sum(_end(call, pump) for call in left)
    return ended


_ONE_MORE = {name: F(name) + 1 for name in ("billed_calls", "unknown_calls", "unpriced_calls")}


@transaction.atomic
def _end(call: Call, pump: str = _NOBODY) -> bool:
    """The end and its bill in one commit, as a pump writes them: the session's sums first, the account's after them."""
    with connection.cursor() as cursor:
        cursor.execute(_END, [call.id, pump, SILENT.total_seconds()])
        if not cursor.rowcount:
            return False
    UsageEntry.objects.create(
        account_id=call.account_id, session_id=call.session_id, epoch=call.epoch, call=call, served=Served.UPSTREAM, billed=True,
        provider=call.provider, model=call.model, key_id=call.key_id,
    )  # fmt: skip
    SessionBudget.objects.bulk_create([SessionBudget(session_id=call.session_id)], ignore_conflicts=True)
    SessionBudget.objects.filter(session_id=call.session_id).update(**_ONE_MORE)
    AccountBudget.objects.bulk_create([AccountBudget(account_id=call.account_id)], ignore_conflicts=True)
    AccountBudget.objects.filter(account_id=call.account_id).update(**_ONE_MORE)
    return True
