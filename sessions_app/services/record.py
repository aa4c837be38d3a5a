"""The service record: what the service did for whom, kept beyond every deletion. Values, no customer content.

Lines are appended and never changed, by a rule of the database; only `sweep` removes them, once they are older than the record's
own retention.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from sessions_app.models import Account, ServiceRecord, Session
from sessions_app.services.cursor import Page
from sessions_app.states import RecordKind

_BATCH = 1000  # lines that one commit removes

_ENDED = """
INSERT INTO sessions_app_servicerecord (kind, type, account_id, session_id, actor, facts)
SELECT %(kind)s, 'operation.' || state, account_id, session_id, lease_owner, jsonb_build_object(
  'operation_id', id, 'kind', kind, 'attempts', attempt, 'http_status', http_status, 'code', error -> 'code', 'accepted_at', accepted_at
) FROM sessions_app_operation WHERE id = ANY(%(ids)s)
"""


def write(
    kind: RecordKind, type_: str, *, account_id: str, session_id: str = "", actor: str = "", facts: dict[str, Any] | None = None
) -> ServiceRecord:
    """Prerequisite: inside the transaction of what the line tells, so that neither exists without the other.

    `actor` is who did it: an operator's user name, a token's id, `policy`, `beat`. `facts` hold numbers, ids and words of ours alone.
    """
    return ServiceRecord.objects.create(
        kind=kind, type=type_, account_id=account_id, session_id=session_id, actor=actor[:100], facts=facts or {}
    )


def moved(session: Session, type_: str, *, actor: str) -> None:
    """A session was made, or has come to another state: `services.session.move` calls it for every step."""
    facts = {"state": session.runtime_state, "epoch": session.epoch}
    write(RecordKind.LIFECYCLE, type_, account_id=session.account_id, session_id=session.id, actor=actor, facts=facts)


def ended(operation_ids: Iterable[str]) -> None:
    """Operations have come to their end; whoever ends one calls it in the same transaction. Of an error only its code is told."""
    with connection.cursor() as cursor:
        cursor.execute(_ENDED, {"kind": RecordKind.LIFECYCLE, "ids": list(operation_ids)})


def shown_actor(line: ServiceRecord) -> str | None:
    """As the account reads it. Of an operation's end it is the host that was at it, and hosts are the operator's."""
    return None if line.type.startswith("operation.") else line.actor or None


def page(account: Account, *, limit: int, before: int | None = None, kind: RecordKind | None = None) -> Page[ServiceRecord]:
    """At most `limit` lines of the account, newest first, below the number `before`. The cursor is the last number."""
    lines = ServiceRecord.objects.filter(account_id=account.id)
    if kind is not None:
        lines = lines.filter(kind=kind)
    if before is not None:
        lines = lines.filter(id__lt=before)
    found = list(lines.order_by("-id")[: limit + 1])
    items = found[:limit]
    return Page(items, str(items[-1].id) if len(found) > limit else "")


def sweep(limit: int = 20 * _BATCH) -> int:
    """Remove lines older than KEEPSTATE_RECORD_DAYS, oldest first, so many at most. Returns how many went."""
    gone = 0
    while gone < limit:
        removed = _remove_batch()
        gone += removed
        if removed < _BATCH:
            break
    return gone


@transaction.atomic
def _remove_batch() -> int:
    old = ServiceRecord.objects.filter(recorded_at__lt=Now() - timedelta(days=settings.KEEPSTATE_RECORD_DAYS))
    ids = list(old.order_by("recorded_at").values_list("id", flat=True)[:_BATCH])
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('keepstate.record_sweep', 'on', true)")  # until this transaction's end; the rule looks at it
    removed, _ = ServiceRecord.objects.filter(id__in=ids).delete()
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('keepstate.record_sweep', '', true)")
    return removed
