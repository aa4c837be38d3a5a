"""What the egress proxy asks the database, by hand: who may connect where as of now, and what was connected."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from gateway_app.egress import policy
from gateway_app.egress.counts import Line
from gateway_app.egress.policy import Policy
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.standing import RUNS


@dataclass(frozen=True)
class Standing:
    account_id: str
    epoch: int
    runs: bool
    policy: Policy

    def is_of(self, who: Channel) -> bool:
        """Whether the channel is the session's present one, and the session runs."""
        return self.runs and (self.epoch, self.account_id) == (who.epoch, who.account_id)


_STANDINGS = """
SELECT session.id, session.account_id, session.epoch, session.runtime_state = ANY(%s),
       coalesce(policy.mode, 'deny'), coalesce(policy.rules, '[]'::jsonb)
FROM sessions_app_session AS session LEFT JOIN gateway_app_egresspolicy AS policy ON policy.session_id = session.id
WHERE session.id = ANY(%s)
"""


async def standings(database: AsyncConnection[Any], session_ids: Iterable[str]) -> dict[str, Standing]:
    """Of those sessions that there are."""
    found = await database.execute(_STANDINGS, [RUNS, list(session_ids)])
    return {
        id_: Standing(account, epoch, runs, policy.stored(mode, rules)) for id_, account, epoch, runs, mode, rules in await found.fetchall()
    }


#: Lines of a session that are kept; its sums are apart.
MOST_LINES = 64
_THERE = "JOIN sessions_app_session AS session ON session.id = one.session_id AND session.runtime_state NOT IN ('deleting', 'deleted')"
_NEW = (
    "unnest(%(session)s::text[], %(host)s::text[], %(port)s::int[], %(outcome)s::text[], %(connections)s::bigint[], %(sent)s::bigint[],"
    " %(received)s::bigint[]) AS one(session_id, host, port, outcome, connections, sent, received)"
)
_ADD_LINES = f"""
INSERT INTO gateway_app_egressline AS kept (session_id, host, port, outcome, connections, sent_bytes, received_bytes, last_at)
SELECT session.id, one.host, one.port, one.outcome, one.connections, one.sent, one.received, statement_timestamp()
FROM {_NEW} {_THERE}
ORDER BY session.id, one.host, one.port, one.outcome
ON CONFLICT (session_id, host, port, outcome) DO UPDATE SET connections = kept.connections + excluded.connections,
  sent_bytes = kept.sent_bytes + excluded.sent_bytes, received_bytes = kept.received_bytes + excluded.received_bytes,
  last_at = excluded.last_at
"""  # noqa: S608  parts of this file
_ADD_SUMS = f"""
INSERT INTO gateway_app_egresssum AS kept (session_id, connections, refusals, sent_bytes, received_bytes)
SELECT session.id, coalesce(sum(one.connections) FILTER (WHERE one.outcome = 'connected'), 0),
       coalesce(sum(one.connections) FILTER (WHERE one.outcome NOT IN ('connected', 'cut')), 0), sum(one.sent), sum(one.received)
FROM {_NEW} {_THERE}
GROUP BY session.id ORDER BY session.id
ON CONFLICT (session_id) DO UPDATE SET connections = kept.connections + excluded.connections, refusals = kept.refusals + excluded.refusals,
  sent_bytes = kept.sent_bytes + excluded.sent_bytes, received_bytes = kept.received_bytes + excluded.received_bytes
"""  # noqa: S608  parts of this file
_FORGET = """
DELETE FROM gateway_app_egressline WHERE id IN (SELECT id FROM (
  SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY last_at DESC, id DESC) AS place
  FROM gateway_app_egressline WHERE session_id = ANY(%s)) AS line WHERE place > %s)
"""


async def add(database: AsyncConnection[Any], lines: list[Line]) -> None:
    """In one commit. Of a session that is being deleted nothing is kept; of the others the newest lines, and sums over all of them."""
    names = ("session", "host", "port", "outcome", "connections", "sent", "received")
    columns = {name: [getattr(line, name) for line in lines] for name in names}
    async with database.transaction():
        await database.execute(_ADD_SUMS, columns)
        await database.execute(_ADD_LINES, columns)
        await database.execute(_FORGET, [sorted(set(columns["session"])), MOST_LINES])
