"""How long a session's machine is awake: from `running` until it is parked, failed or being deleted.

A machine whose end nobody saw counts until it was last seen alive, and that part is estimated: in its owner's favour.
"""

from collections.abc import Iterable
from datetime import timedelta

from django.db import connection
from django.db.models.functions import Coalesce, Now

from sessions_app.models import SessionUsage
from sessions_app.states import SESSION_LIVE, SessionState

#: A machine is proved alive at most this often.
GRAIN = timedelta(minutes=1)
#: To these a session goes when its machine is found gone.
_LOST = frozenset({SessionState.FAILED, SessionState.RESUMING})

_END = """
UPDATE sessions_app_sessionusage AS usage
SET awake_ms = awake_ms + span.ms, estimated_ms = estimated_ms + CASE WHEN %(lost)s THEN span.ms ELSE 0 END,
    awake_since = NULL, proved_at = NULL
FROM (
  SELECT session_id,
    greatest(0, extract(epoch FROM CASE WHEN %(lost)s THEN proved_at ELSE statement_timestamp() END - awake_since) * 1000)::bigint AS ms
  FROM sessions_app_sessionusage WHERE session_id = %(session)s
) AS span
WHERE usage.session_id = span.session_id AND usage.awake_since IS NOT NULL
"""


def moved(session_id: str, to: SessionState) -> None:
    """A session has come to another state. Prerequisite: inside the transaction of that step, which has the session's row."""
    if to in SESSION_LIVE:
        _begin(session_id)
    else:
        with connection.cursor() as cursor:
            cursor.execute(_END, {"session": session_id, "lost": to in _LOST})


def _begin(session_id: str) -> None:
    known = SessionUsage.objects.filter(session_id=session_id)
    if not known.update(awake_since=Coalesce("awake_since", Now()), proved_at=Now()):
        SessionUsage.objects.create(session_id=session_id, awake_since=Now(), proved_at=Now())


def prove(session_ids: Iterable[str]) -> None:
    """Their machines were seen alive now. Cheap to repeat: what was proved a moment ago is not written again."""
    awake = SessionUsage.objects.filter(session_id__in=list(session_ids), awake_since__isnull=False)
    awake.filter(proved_at__lt=Now() - GRAIN).update(proved_at=Now())
