"""Whether a host's silence may be held against it: only silence that somebody listened to.

When the database, beat or the control worker was away, every heartbeat is old at once, and the hosts are not to blame. So the turns that
judge leave their mark, and a host may be lost only to turns that have followed each other, without a gap, for as long as the host
must have been silent. What was missed during a gap is judged that much later.
"""

from django.conf import settings
from django.db import connection

from workers.host.liveness import lost_after

#: A busy machine takes its turns a little late.
_LEAST_SECONDS = 5.0
_LOOK = """
INSERT INTO workers_fleetwatch AS watch (id, since, looked_at) VALUES (1, clock_timestamp(), clock_timestamp())
ON CONFLICT (id) DO UPDATE SET looked_at = clock_timestamp(),
  since = CASE WHEN watch.looked_at < clock_timestamp() - make_interval(secs => %(gap)s) THEN clock_timestamp() ELSE watch.since END
RETURNING since <= clock_timestamp() - make_interval(secs => %(long_enough)s)
"""


def look() -> bool:
    """Whether the turns up to this one have looked for long enough. Two at once do no harm."""
    with connection.cursor() as cursor:
        cursor.execute(_LOOK, {"gap": _gap_seconds(), "long_enough": lost_after().total_seconds()})
        (long_enough,) = cursor.fetchone()
    return bool(long_enough)


def _gap_seconds() -> float:
    """Turns that are further apart leave a gap. Half of the silence, so that an outage which leaves none is shorter; at least two turns."""
    period: float = settings.CELERY_BEAT_SCHEDULE["fleet"]["schedule"]  # type: ignore[misc]  # made by the settings' own parts
    return max(lost_after().total_seconds() / 2, 2 * period, _LEAST_SECONDS)
