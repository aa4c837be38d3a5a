"""Operations: how many and how long by slot of time, which are stuck, which failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from keepstate_site.console_pages.figures.span import Span
from sessions_app.models import Operation
from sessions_app.states import OperationKind, OperationState

SHOWN = 10
#: A count goes no further than this.
MOST = 1000
#: A queued operation that no worker has begun for so long is told as stuck.
UNHEARD = timedelta(seconds=60)
#: So is a running one that has taken longer than this, whoever holds its lease.
EXPECTED: Mapping[str, timedelta] = {
    OperationKind.BOOT: timedelta(minutes=5),
    OperationKind.CHECKPOINT: timedelta(minutes=10),
    OperationKind.RESUME: timedelta(minutes=5),
    OperationKind.DELETE: timedelta(minutes=15),
    OperationKind.EXEC: timedelta(minutes=65),
    OperationKind.FORK: timedelta(minutes=15),
    OperationKind.RESTORE: timedelta(minutes=10),
}

_BY_SLOT = """
SELECT date_bin(%(slot)s, accepted_at, %(first)s),
       count(*) FILTER (WHERE state = 'succeeded'),
       count(*) FILTER (WHERE state IN ('failed', 'reconciliation_required')),
       percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY extract(epoch FROM finished_at - accepted_at))
           FILTER (WHERE state = 'succeeded')
FROM sessions_app_operation
WHERE kind = %(kind)s AND accepted_at >= %(first)s
GROUP BY 1
"""


@dataclass(frozen=True)
class Slots:
    """By slot, oldest first. Seconds from the request to the end; None where none succeeded."""

    starts: list[datetime]
    succeeded: list[float | None]
    failed: list[float | None]
    p50: list[float | None]
    p95: list[float | None]


def by_slot(kind: OperationKind, span: Span, now: datetime) -> Slots:
    starts = span.slots(now, span.slot)
    with connection.cursor() as cursor:
        parameters: dict[str, Any] = {"kind": kind.value, "slot": span.slot, "first": starts[0]}
        cursor.execute(_BY_SLOT, parameters)
        found = {row[0]: row[1:] for row in cursor.fetchall()}
    rows = [found.get(start, (0, 0, None)) for start in starts]
    halves = [row[2] or (None, None) for row in rows]
    return Slots(
        starts,
        [row[0] for row in rows],
        [row[1] for row in rows],
        [_float(half[0]) for half in halves],
        [_float(half[1]) for half in halves],
    )


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def stuck() -> "QuerySet[Operation]":
    """Nobody works on it, or it takes longer than it should: what is queued too long, whose lease is dead, what runs too long."""
    queued = Q(state=OperationState.QUEUED, due_at__lt=Now() - UNHEARD)
    orphaned = Q(state=OperationState.RUNNING, lease_expires_at__lt=Now())
    slow = Q()
    for kind, most in EXPECTED.items():
        slow |= Q(kind=kind) & Q(started_at__lt=Now() - most)
    return Operation.objects.filter(queued | orphaned | (Q(state=OperationState.RUNNING) & slow))


def failed(within: timedelta) -> "QuerySet[Operation]":
    ended_badly = [OperationState.FAILED, OperationState.RECONCILIATION_REQUIRED]
    return Operation.objects.filter(state__in=ended_badly, accepted_at__gt=Now() - within)


def bounded(rows: "QuerySet[Operation]") -> int:
    """How many, up to MOST."""
    return rows.order_by()[:MOST].count()
