"""The statements about who has had an answer whole: what was recorded and not had may be had by a retry, in the epoch of its asking."""

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from gateway_app.proxy.channel import Channel

#: Minutes that an entry of a window stays open: longer than any client that was measured goes on retrying.
WINDOW_MINUTES = 15
#: Of a session's newest calls so many are looked at when another process takes up its channel: more were not on their way at once.
LOOKED_AT = 200

_HAD = "UPDATE gateway_app_call SET delivered_at = now() WHERE id = ANY(%s) AND delivered_at IS NULL"
_CLOSE = """
UPDATE gateway_app_windowentry AS entry SET consumed_at = coalesce(entry.consumed_at, now()), delivered_at = now()
FROM unnest(%s::text[], %s::int[], %s::text[]) AS had (session_id, epoch, call_id)
WHERE entry.session_id = had.session_id AND entry.epoch = had.epoch AND entry.call_id = had.call_id AND entry.delivered_at IS NULL
"""


async def had(database: AsyncConnection[Any], deliveries: Sequence[tuple[str, int, str]]) -> None:
    """(session, epoch, call): the connection took all of it. Not waited for to be on the disk: lost, it is as if the process had died."""
    sessions, epochs, calls = (list(column) for column in zip(*deliveries, strict=True))
    async with database.transaction():
        await database.execute("SET LOCAL synchronous_commit = off")
        await database.execute(_HAD, [sorted(set(calls))])
        await database.execute(_CLOSE, [sessions, epochs, calls])


_UNDELIVERED = """
INSERT INTO gateway_app_windowentry (session_id, epoch, call_id, why, "order", open_until, consumed_by)
SELECT %(session)s, %(epoch)s, id, 'undelivered', started, now() + make_interval(mins => %(minutes)s), ''
FROM gateway_app_call WHERE id = %(id)s AND session_id = ANY(%(line)s) AND account_id = %(account)s
ON CONFLICT (session_id, epoch, call_id) DO UPDATE SET consumed_at = NULL, delivered_at = NULL,
    open_until = greatest(gateway_app_windowentry.open_until, excluded.open_until)
"""


async def undelivered(database: AsyncConnection[Any], channel: Channel, call_id: str) -> None:
    """Its caller left before it had all: the next equal request gets this answer.

    Who had taken it stays written. A relay whose connection broke comes again under its name, for the rest.
    """
    facts = {"epoch": channel.epoch, "minutes": WINDOW_MINUTES, "id": call_id, "session": channel.session_id}
    await database.execute(_UNDELIVERED, {**facts, "line": list(channel.line), "account": channel.account_id})


_LEFT_BEHIND = """
INSERT INTO gateway_app_windowentry (session_id, epoch, call_id, why, "order", open_until, consumed_by)
SELECT session_id, epoch, id, 'undelivered', started, now() + make_interval(mins => %(minutes)s), ''
FROM (SELECT * FROM gateway_app_call WHERE session_id = %(session)s ORDER BY started DESC LIMIT %(most)s) AS newest
WHERE epoch = %(epoch)s AND state = 'complete' AND delivered_at IS NULL AND pump <> %(pump)s
  AND ended_at > now() - make_interval(mins => %(minutes)s)
ON CONFLICT (session_id, epoch, call_id) DO NOTHING
"""
_TAKEN_AND_NOT_HAD = """
UPDATE gateway_app_windowentry SET consumed_at = NULL
WHERE session_id = %(session)s AND epoch = %(epoch)s AND delivered_at IS NULL
  AND consumed_at BETWEEN now() - make_interval(mins => %(minutes)s) AND now() - make_interval(secs => %(lives)s)
"""


async def take_up(database: AsyncConnection[Any], channel: Channel, pump: str, lives_seconds: float) -> None:
    """What an earlier process recorded, or took from the window, and is not known to have handed over whole: a retry may have it.

    Of the process `pump` itself, which lives since so many seconds, nothing. Safe to repeat.
    """
    facts = {"session": channel.session_id, "epoch": channel.epoch, "pump": pump, "lives": lives_seconds}
    facts |= {"minutes": WINDOW_MINUTES, "most": LOOKED_AT}
    async with database.transaction():
        await database.execute(_TAKEN_AND_NOT_HAD, facts)
        await database.execute(_LEFT_BEHIND, facts)
