"""Whose machine it is that lives in an epoch of a session, as the database knows it."""

from collections.abc import Collection

from gateway_app.proxy.channel import Channel
from gateway_app.proxy.pool import Pool

#: A session's line is followed back so many forks: who was forked that often must have got a credential of its own by then.
MOST_FORKS = 256

_KNOWN = """
WITH RECURSIVE line AS (
  SELECT id, id AS member, account_id, parent_id, 1 AS depth FROM sessions_app_session WHERE id = ANY(%s)
  UNION ALL
  SELECT line.id, parent.id, line.account_id, parent.parent_id, line.depth + 1
  FROM line JOIN sessions_app_session AS parent ON parent.id = line.parent_id AND parent.account_id = line.account_id
  WHERE line.depth < %s
)
SELECT session.id, session.account_id, session.epoch, array_agg(line.member)
FROM sessions_app_session AS session JOIN line ON line.id = session.id
WHERE session.runtime_state <> 'deleted' GROUP BY session.id
"""

#: A session and an epoch of it.
Place = tuple[str, int]


async def channels(database: Pool, places: Collection[Place]) -> dict[Place, Channel]:
    """Those of the places whose epoch is their session's present one; the others are over. One query for all of them.

    Raises OperationalError or PoolTimeout.
    """
    async with database.connection() as connection:
        found = await connection.execute(_KNOWN, [sorted({session_id for session_id, _ in places}), MOST_FORKS])
        rows = await found.fetchall()
    wanted = set(places)
    return {
        (id_, epoch): Channel(account_id, id_, epoch, frozenset(line)) for id_, account_id, epoch, line in rows if (id_, epoch) in wanted
    }
