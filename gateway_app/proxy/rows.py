"""The data path's statements, by hand: each is one round trip where it can be, and says what it must find to have an effect.

A call's own opening and end: gateway_app.proxy.call_rows.

`gateway_app.models` has the tables; a test holds these columns to them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from gateway_app.calls.fingerprint import Fingerprint
from gateway_app.proxy.channel import Channel
from gateway_app.states import Api, CallState, Provider, Section, Served
from gateway_app.usage import Tokens

#: A gateway tells every few seconds which calls it reads (gateway_app.proxy.gateway.BEAT_SECONDS); one that was silent for so long is dead.
SILENT_SECONDS = 60.0


_TAKE = """
UPDATE gateway_app_windowentry SET consumed_at = now(), consumed_by = %(by)s
WHERE id = (
    SELECT entry.id FROM gateway_app_windowentry AS entry JOIN gateway_app_call AS call ON call.id = entry.call_id
    WHERE entry.session_id = %(session)s AND entry.epoch = %(epoch)s AND entry.consumed_at IS NULL AND entry.open_until > now()
      AND call.provider = %(provider)s AND call.key_id = %(key_id)s AND call.state IN ('complete', 'open')
      AND (call.exact = %(exact)s OR call.canonical = %(canonical)s OR (entry.why = 'in_flight' AND call.loose = %(loose)s))
    ORDER BY call.exact = %(exact)s DESC, call.canonical = %(canonical)s DESC, entry.order LIMIT 1
    FOR UPDATE OF entry SKIP LOCKED
)
RETURNING call_id
"""


async def take_from_window(
    database: AsyncConnection[Any], channel: Channel, provider: Provider, key_id: str, prints: Fingerprint, by: str
) -> str | None:
    """The oldest recorded call that answers this request, taken by it and nobody else in this epoch; None if there is none."""
    found = await database.execute(
        _TAKE,
        {
            "by": by,
            "session": channel.session_id,
            "epoch": channel.epoch,
            "provider": provider,
            "key_id": key_id,
            "exact": prints.exact,
            "canonical": prints.canonical,
            "loose": prints.loose,
        },
    )
    row = await found.fetchone()
    return None if row is None else str(row[0])


_CANDIDATES = """
SELECT entry.id, call.id FROM gateway_app_windowentry AS entry JOIN gateway_app_call AS call ON call.id = entry.call_id
WHERE entry.session_id = %s AND entry.epoch = %s AND entry.consumed_at IS NULL AND entry.open_until > now()
  AND call.api = %s AND call.key_id = %s AND call.state = 'complete'
ORDER BY entry.order DESC LIMIT 20
"""
_TAKE_ENTRY = "UPDATE gateway_app_windowentry SET consumed_at = now(), consumed_by = %s WHERE id = %s AND consumed_at IS NULL"


async def candidates(database: AsyncConnection[Any], channel: Channel, api: Api, key_id: str) -> list[tuple[int, str]]:
    """Entries that a request may go on from, the newest first: (entry, call)."""
    found = await database.execute(_CANDIDATES, [channel.session_id, channel.epoch, api, key_id])
    return [(row[0], row[1]) for row in await found.fetchall()]


async def take_entry(database: AsyncConnection[Any], entry: int, by: str) -> bool:
    return (await database.execute(_TAKE_ENTRY, [by, entry])).rowcount == 1


@dataclass(frozen=True)
class Record:
    """A recorded call as it is served again; `pieces` are sealed."""

    id: str
    api: Api
    state: CallState
    http_status: int
    headers: list[tuple[str, str]]
    pump: str
    read_elsewhere: bool  # another process told a while ago that it reads it
    tokens: Tokens
    pieces: list[bytes]

    @property
    def events(self) -> bool:
        """Whether it is a stream of events, whatever was asked for."""
        return any(name.lower() == "content-type" and value.lower().startswith("text/event-stream") for name, value in self.headers)


_RECORD = """
SELECT id, api, state, coalesce(http_status, 0), headers, pump,
       state = 'open' AND pump_seen_at > now() - make_interval(secs => %s),
       input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
       ARRAY(SELECT sealed FROM gateway_app_callpiece WHERE call_id = call.id AND section = %s ORDER BY number)
FROM gateway_app_call AS call WHERE id = %s AND session_id = ANY(%s) AND account_id = %s
"""


async def record(database: AsyncConnection[Any], channel: Channel, call_id: str, section: Section = Section.RESPONSE) -> Record | None:
    """Of the channel's own line alone."""
    found = await database.execute(_RECORD, [SILENT_SECONDS, section, call_id, list(channel.line), channel.account_id])
    row = await found.fetchone()
    if row is None:
        return None
    id_, api, state, status, headers, pump, elsewhere, *told, pieces = row
    pairs = [(name, value) for name, value in headers]
    return Record(id_, Api(api), CallState(state), status, pairs, pump, bool(elsewhere), Tokens(*told), [bytes(piece) for piece in pieces])


@dataclass(frozen=True)
class Begun:
    """What answers under a relay's name already. `replayed`: the record of another call does, which was taken out of a window for it."""

    call_id: str
    replayed: bool
    equal: bool  # its request is this one's equal; else this one goes on from its answer


#: Of both: the channel's epoch is its session's, and a call of a session that it was forked from lies before the fork.
_OF_RELAY = """
SELECT call.id, false, true FROM gateway_app_call AS call
WHERE call.session_id = ANY(%(line)s) AND call.account_id = %(account)s AND call.relay_id = %(relay)s AND call.exact = %(exact)s
  AND EXISTS (SELECT 1 FROM sessions_app_session WHERE id = %(session)s AND account_id = %(account)s AND epoch = %(epoch)s)
  AND (call.session_id = %(session)s OR call.started <= (
    SELECT max(watermark) FROM gateway_app_epochorigin WHERE session_id = %(session)s AND from_id <> %(session)s))
ORDER BY call.started DESC LIMIT 1
"""
_TAKEN_BY_RELAY = """
SELECT call.id, true, call.exact = %(exact)s OR call.canonical = %(canonical)s OR call.loose = %(loose)s
FROM gateway_app_windowentry AS entry JOIN gateway_app_call AS call ON call.id = entry.call_id
WHERE entry.session_id = ANY(%(line)s) AND call.account_id = %(account)s AND entry.consumed_by = %(relay)s
  AND EXISTS (SELECT 1 FROM sessions_app_session WHERE id = %(session)s AND account_id = %(account)s AND epoch = %(epoch)s)
  AND (call.session_id = %(session)s OR call.started <= (
    SELECT max(watermark) FROM gateway_app_epochorigin WHERE session_id = %(session)s AND from_id <> %(session)s))
ORDER BY entry.id DESC LIMIT 1
"""
_TAKE_UP = """
UPDATE gateway_app_windowentry SET consumed_at = now(), consumed_by = %s
WHERE session_id = %s AND epoch = %s AND call_id = %s AND consumed_at IS NULL
"""


async def of_relay(database: AsyncConnection[Any], channel: Channel, relay_id: str, prints: Fingerprint) -> Begun | None:
    """What the relay has begun under that name, in this session or in one that it was forked from.

    The request must be the same, for a name that two machines draw by an accident is no one's. A call that goes on is not for another
    request any more: its entry in the epoch's window is taken.
    """
    place = {"line": list(channel.line), "account": channel.account_id, "session": channel.session_id, "epoch": channel.epoch}
    facts = {**place, "relay": relay_id, **vars(prints)}
    row = await (await database.execute(_OF_RELAY, facts)).fetchone()
    if row is None:
        row = await (await database.execute(_TAKEN_BY_RELAY, facts)).fetchone()
    if row is None:
        return None
    await database.execute(_TAKE_UP, [relay_id, channel.session_id, channel.epoch, row[0]])
    return Begun(*row)


_SERVED = """
WITH line AS (
    INSERT INTO gateway_app_usageentry (account_id, session_id, epoch, call_id, served, billed, provider, model, key_id, input_tokens,
        output_tokens, cache_read_tokens, cache_write_tokens, price_version)
    SELECT account_id, %(session)s, %(epoch)s, id, %(served)s, false, provider, model, key_id, input_tokens, output_tokens,
        cache_read_tokens, cache_write_tokens, ''
    FROM gateway_app_call WHERE id = %(id)s
)
UPDATE gateway_app_sessionbudget SET replayed_calls = replayed_calls + 1, replayed_tokens = replayed_tokens + %(tokens)s
WHERE session_id = %(session)s
"""


async def served_again(database: AsyncConnection[Any], channel: Channel, found: Record, served: Served) -> None:
    """A line that costs nothing, with the tokens that were not bought again."""
    line = {"session": channel.session_id, "epoch": channel.epoch, "id": found.id, "served": served, "tokens": found.tokens.total or 0}
    await database.execute(_SERVED, line)


_BEAT = "UPDATE gateway_app_call SET pump_seen_at = now() WHERE state = 'open' AND pump = %s AND id = ANY(%s)"


async def beat(database: AsyncConnection[Any], pump: str, reads: Sequence[str]) -> None:
    """This process still reads these of its open calls. One whose end it could not write is none of them, and ends as unknown."""
    await database.execute(_BEAT, [pump, list(reads)])
