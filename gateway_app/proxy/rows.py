"""The data path's statements, by hand: each is one round trip where it can be, and says what it must find to have an effect.

`gateway_app.models` has the tables; a test holds these columns to them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import UniqueViolation

from gateway_app.calls.fingerprint import Fingerprint
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.standing import RUNS
from gateway_app.states import Api, CallState, Provider, Section, Served
from gateway_app.usage import Tokens

#: A piece of a recorded section before it is sealed.
PIECE_BYTES = 1 << 20
#: A gateway tells every few seconds which calls it reads (gateway_app.proxy.gateway.BEAT_SECONDS); one that was silent for so long is dead.
SILENT_SECONDS = 60.0


@dataclass(frozen=True)
class Opened:
    """A call as it is about to go upstream."""

    id: str
    relay_id: str
    provider: Provider
    api: Api
    path: str
    model: str
    streamed: bool
    prints: Fingerprint
    key_id: str
    key_last4: str
    request_bytes: int
    body_sha256: str
    sent_sha256: str
    steer_id: str
    pump: str


_OPEN = """
INSERT INTO gateway_app_call (id, account_id, session_id, epoch, started, relay_id, provider, api, path, model, streamed, exact, canonical,
    loose, key_id, key_last4, state, pump, pump_seen_at, headers, request_bytes, response_bytes, steer_id, body_sha256, sent_sha256)
SELECT %(id)s, session.account_id, session.id, session.epoch, nextval('gateway_app_tick'), %(relay_id)s, %(provider)s, %(api)s, %(path)s,
    %(model)s, %(streamed)s, %(exact)s, %(canonical)s, %(loose)s, %(key_id)s, %(key_last4)s, 'open', %(pump)s, now(), '[]'::jsonb,
    %(request_bytes)s, 0, %(steer_id)s, %(body_sha256)s, %(sent_sha256)s
FROM sessions_app_session AS session
WHERE session.id = %(session)s AND session.epoch = %(epoch)s AND session.runtime_state = ANY(%(runs)s)
"""
_USE_STEER = "UPDATE gateway_app_steer SET used_at = now(), call_id = %s WHERE id = %s AND used_at IS NULL"
_CLOSE_OTHER_WAYS = """
UPDATE gateway_app_windowentry SET open_until = now()
WHERE session_id = %s AND epoch = %s AND consumed_at IS NULL AND open_until > now() AND why = ANY(%s)
"""


class RelayKnown(Exception):
    """Another connection of the relay has opened the call of that name a moment ago."""


class SteerTaken(Exception):
    """Another call of the machine has taken the steer a moment ago: it is in that one, and in no other."""


async def open_call(
    database: AsyncConnection[Any], channel: Channel, call: Opened, sealed_request: Sequence[bytes], closing: Sequence[str]
) -> bool:
    """The call's row and its request, durable at return. False if the session has gone on to another epoch: nothing was written.

    `closing`: the kinds of window entries that a call of its own closes; none where there is no window.
    Raises SteerTaken, RelayKnown; then nothing was written.
    """
    prints = {"exact": call.prints.exact, "canonical": call.prints.canonical, "loose": call.prints.loose}
    facts = {name: value for name, value in vars(call).items() if name != "prints"}
    async with database.transaction():
        try:
            written = await database.execute(
                _OPEN, {**facts, **prints, "session": channel.session_id, "epoch": channel.epoch, "runs": RUNS}
            )
        except UniqueViolation as error:
            if error.diag.constraint_name != "call_of_relay":
                raise
            raise RelayKnown from None
        if written.rowcount != 1:
            return False
        await _put(database, call.id, Section.REQUEST, sealed_request)
        if call.steer_id and (await database.execute(_USE_STEER, [call.id, call.steer_id])).rowcount != 1:
            raise SteerTaken
        if closing:
            await database.execute(_CLOSE_OTHER_WAYS, [channel.session_id, channel.epoch, list(closing)])
    return True


_PUT = """
INSERT INTO gateway_app_callpiece (call_id, section, number, start, sealed)
SELECT %s, %s, piece.number - 1, (piece.number - 1) * %s, piece.sealed FROM unnest(%s::bytea[]) WITH ORDINALITY AS piece(sealed, number)
"""


async def _put(database: AsyncConnection[Any], call_id: str, section: Section, sealed: Sequence[bytes]) -> None:
    if sealed:
        await database.execute(_PUT, [call_id, section, PIECE_BYTES, list(sealed)])


@dataclass(frozen=True)
class Ended:
    """What a pump found at the end of a call. `price` in micro-dollars, None where it is not known."""

    state: CallState
    http_status: int | None
    headers: list[tuple[str, str]]
    response_bytes: int
    tokens: Tokens
    model: str
    price: int | None
    price_version: str


_END = """
UPDATE gateway_app_call SET state = %(state)s, ended = nextval('gateway_app_tick'), http_status = %(http_status)s, headers = %(headers)s,
    response_bytes = %(response_bytes)s, input_tokens = %(input)s, output_tokens = %(output)s, cache_read_tokens = %(cache_read)s,
    cache_write_tokens = %(cache_write)s, model = CASE WHEN %(model)s = '' THEN model ELSE %(model)s END, ended_at = clock_timestamp(),
    first_byte_at = clock_timestamp() - make_interval(secs => %(since_first)s)
WHERE id = %(id)s AND state = 'open' AND pump = %(pump)s
"""
_BILL = """
INSERT INTO gateway_app_usageentry (account_id, session_id, epoch, call_id, served, billed, provider, model, key_id, input_tokens,
    output_tokens, cache_read_tokens, cache_write_tokens, microusd, price_version)
SELECT account_id, %(session)s, %(epoch)s, id, %(served)s, %(billed)s, provider, model, key_id, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, %(microusd)s, %(price_version)s
FROM gateway_app_call WHERE id = %(id)s
"""
_SPEND = """
INSERT INTO gateway_app_sessionbudget AS own (session_id, spent_tokens, spent_microusd, unknown_calls, unpriced_calls, billed_calls,
    replayed_calls, replayed_tokens, told_tokens, told_microusd, told_unknown_calls, told_unpriced_calls)
VALUES (%(session)s, %(tokens)s, %(microusd)s, %(unknown)s, %(unpriced)s, 1, 0, 0, 0, 0, 0, 0)
ON CONFLICT (session_id) DO UPDATE SET spent_tokens = own.spent_tokens + excluded.spent_tokens,
    spent_microusd = own.spent_microusd + excluded.spent_microusd, unknown_calls = own.unknown_calls + excluded.unknown_calls,
    unpriced_calls = own.unpriced_calls + excluded.unpriced_calls, billed_calls = own.billed_calls + 1
"""
_SPEND_OF_ACCOUNT = """
INSERT INTO gateway_app_accountbudget AS whole (account_id, spent_tokens, spent_microusd, unknown_calls, unpriced_calls, billed_calls,
    revision)
VALUES (%(account)s, %(tokens)s, %(microusd)s, %(unknown)s, %(unpriced)s, 1, 0)
ON CONFLICT (account_id) DO UPDATE SET spent_tokens = whole.spent_tokens + excluded.spent_tokens,
    spent_microusd = whole.spent_microusd + excluded.spent_microusd, unknown_calls = whole.unknown_calls + excluded.unknown_calls,
    unpriced_calls = whole.unpriced_calls + excluded.unpriced_calls, billed_calls = whole.billed_calls + 1
"""


async def end_call(
    database: AsyncConnection[Any], channel: Channel, call: Opened, ended: Ended, sealed: Sequence[bytes], since_first: float | None
) -> bool:
    """The end of a call, its bytes and its bill, durable at return. False if somebody else has ended it: nothing was written.

    Safe to repeat: a connection that broke while it committed does not tell whether it did.
    """
    tokens = ended.tokens
    async with database.transaction():
        written = await database.execute(
            _END,
            {
                "id": call.id,
                "pump": call.pump,
                "state": ended.state,
                "http_status": ended.http_status,
                "headers": json.dumps(ended.headers),
                "response_bytes": ended.response_bytes,
                "input": tokens.input,
                "output": tokens.output,
                "cache_read": tokens.cache_read,
                "cache_write": tokens.cache_write,
                "model": ended.model[:100],
                "since_first": since_first,
            },
        )
        if written.rowcount != 1:
            return await _ended_so(database, call, ended.state)
        await _put(database, call.id, Section.RESPONSE, sealed)
        if ended.state != CallState.REFUSED:
            await _bill(database, channel, call.id, ended)
    return True


async def _ended_so(database: AsyncConnection[Any], call: Opened, state: CallState) -> bool:
    found = await database.execute("SELECT 1 FROM gateway_app_call WHERE id = %s AND pump = %s AND state = %s", [call.id, call.pump, state])
    return await found.fetchone() is not None


async def _bill(database: AsyncConnection[Any], channel: Channel, call_id: str, ended: Ended) -> None:
    line = {"session": channel.session_id, "epoch": channel.epoch, "id": call_id, "served": Served.UPSTREAM, "billed": True}
    await database.execute(_BILL, {**line, "microusd": ended.price, "price_version": ended.price_version})
    unknown = int(ended.tokens.total is None)
    spent = {"session": channel.session_id, "account": channel.account_id, "unknown": unknown}
    spent |= {"tokens": ended.tokens.total or 0, "microusd": ended.price or 0, "unpriced": int(ended.price is None)}
    await database.execute(_SPEND, spent)
    await database.execute(_SPEND_OF_ACCOUNT, spent)


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


_OF_RELAY = """
SELECT id, false, true FROM gateway_app_call
WHERE session_id = ANY(%(line)s) AND account_id = %(account)s AND relay_id = %(relay)s AND exact = %(exact)s ORDER BY started DESC LIMIT 1
"""
_TAKEN_BY_RELAY = """
SELECT call.id, true, call.exact = %(exact)s OR call.canonical = %(canonical)s OR call.loose = %(loose)s
FROM gateway_app_windowentry AS entry JOIN gateway_app_call AS call ON call.id = entry.call_id
WHERE entry.session_id = ANY(%(line)s) AND call.account_id = %(account)s AND entry.consumed_by = %(relay)s ORDER BY entry.id DESC LIMIT 1
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
    facts = {"line": list(channel.line), "account": channel.account_id, "relay": relay_id, **vars(prints)}
    row = await (await database.execute(_OF_RELAY, facts)).fetchone()
    if row is None:
        row = await (await database.execute(_TAKEN_BY_RELAY, facts)).fetchone()
    if row is None:
        return None
    await database.execute(_TAKE_UP, [relay_id, channel.session_id, channel.epoch, row[0]])
    return Begun(*row)


_SERVED = """
UPDATE gateway_app_sessionbudget SET replayed_calls = replayed_calls + 1, replayed_tokens = replayed_tokens + %s WHERE session_id = %s
"""


async def served_again(database: AsyncConnection[Any], channel: Channel, found: Record, served: Served) -> None:
    """A line that costs nothing, with the tokens that were not bought again."""
    async with database.transaction():
        line = {"session": channel.session_id, "epoch": channel.epoch, "id": found.id, "served": served, "billed": False}
        line |= {"microusd": None, "price_version": ""}
        await database.execute(_BILL, line)
        await database.execute(_SERVED, [found.tokens.total or 0, channel.session_id])


_BEAT = "UPDATE gateway_app_call SET pump_seen_at = now() WHERE state = 'open' AND pump = %s AND id = ANY(%s)"


async def beat(database: AsyncConnection[Any], pump: str, reads: Sequence[str]) -> None:
    """This process still reads these of its open calls. One whose end it could not write is none of them, and ends as unknown."""
    await database.execute(_BEAT, [pump, list(reads)])
