"""Who of all that wait is looked at: the first of each kind of demand (workers/host/choice.py), so that hundreds that wait for the same do
not hide those behind them that could begin.

Kinds are found one after the other in their index, so however many wait, at most LINE rows are read and each kind costs one look.
"""

from django.db import connection
from django.db.models import BooleanField, Case, Q, QuerySet, Value, When
from django.db.models.functions import Now

from sessions_app.models import Operation
from sessions_app.services import waiting

#: So many are looked at, each kind's share being the same. Of more kinds than that those whose first has waited longest.
LINE = 500
#: After this part of the longest wait, an operation counts as having waited for long (workers/host/choice.py).
LONG = 1 / 4

_FIRST = """
WITH RECURSIVE waiting AS NOT MATERIALIZED (
  SELECT id, accepted_at, waits_as FROM sessions_app_operation WHERE state = 'queued' AND waits_for <> ''
), kinds (kind) AS (
  (SELECT waits_as FROM waiting ORDER BY waits_as LIMIT 1)
  UNION ALL
  SELECT (SELECT waits_as FROM waiting WHERE waits_as > kinds.kind ORDER BY waits_as LIMIT 1) FROM kinds WHERE kinds.kind IS NOT NULL
), oldest AS (
  SELECT kind FROM kinds CROSS JOIN LATERAL (
    SELECT accepted_at, id FROM waiting WHERE waits_as = kinds.kind ORDER BY accepted_at, id LIMIT 1
  ) AS head ORDER BY head.accepted_at, head.id LIMIT %(line)s
), share AS (SELECT greatest(1, %(line)s / greatest(1, count(*))) AS most FROM oldest)
SELECT first.id, first.place = share.most AND first.has_next FROM oldest CROSS JOIN share CROSS JOIN LATERAL (
  SELECT id, row_number() OVER in_order AS place, lead(id) OVER in_order IS NOT NULL AS has_next
  FROM waiting WHERE waits_as = oldest.kind WINDOW in_order AS (ORDER BY accepted_at, id)
  ORDER BY accepted_at, id LIMIT (SELECT most FROM share)
) AS first
"""


def line() -> "QuerySet[Operation]":
    """The first of each kind, all in order of acceptance, with their sessions. Annotated are `waited_long`, and `more_behind` for the last
    of a kind's share, behind which others wait.
    """
    if not waiting.line().exists():
        return Operation.objects.none()
    with connection.cursor() as cursor:
        cursor.execute(_FIRST, {"line": LINE})
        first: dict[str, bool] = dict(cursor.fetchall())
    return (
        waiting.line()
        .filter(id__in=list(first))
        .select_related("session")
        .annotate(
            waited_long=_whether(Q(due_at__lt=Now() - waiting.longest() * LONG)),
            more_behind=_whether(Q(id__in=[id_ for id_, last in first.items() if last])),
        )
    )


def _whether(condition: Q) -> Case:
    return Case(When(condition, then=Value(True)), default=Value(False), output_field=BooleanField())
