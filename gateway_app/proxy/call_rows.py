"""A call's row as it opens and as it ends, by hand: one statement each, so one round trip and one commit.

What one statement says happens together or not at all, and rows that many calls share (the sums) are locked for the commit alone.
`gateway_app.models` has the tables; a test holds these columns to them.
"""

import json
from collections.abc import Sequence
from contextlib import nullcontext
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


_PIECES = """
    SELECT it.id, %(section)s, piece.number - 1, (piece.number - 1) * %(piece_bytes)s, piece.sealed
    FROM it, unnest(%(sealed)b::bytea[]) WITH ORDINALITY AS piece(sealed, number)
"""
_OPEN = f"""
WITH it AS (
    INSERT INTO gateway_app_call (id, account_id, session_id, epoch, started, relay_id, provider, api, path, model, streamed, exact,
        canonical, loose, key_id, key_last4, state, pump, pump_seen_at, headers, request_bytes, response_bytes, steer_id, body_sha256,
        sent_sha256)
    SELECT %(id)s, session.account_id, session.id, session.epoch, nextval('gateway_app_tick'), %(relay_id)s, %(provider)s, %(api)s,
        %(path)s, %(model)s, %(streamed)s, %(exact)s, %(canonical)s, %(loose)s, %(key_id)s, %(key_last4)s, 'open', %(pump)s, now(),
        '[]'::jsonb, %(request_bytes)s, 0, %(steer_id)s, %(body_sha256)s, %(sent_sha256)s
    FROM sessions_app_session AS session
    WHERE session.id = %(session)s AND session.epoch = %(epoch)s AND session.runtime_state = ANY(%(runs)s)
    RETURNING id
), kept AS (
    INSERT INTO gateway_app_callpiece (call_id, section, number, start, sealed) {_PIECES}
)
SELECT 1 FROM it
"""  # noqa: S608  of constants
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
    facts = {name: value for name, value in vars(call).items() if name != "prints"} | vars(call.prints)
    facts |= {"session": channel.session_id, "epoch": channel.epoch, "runs": RUNS}
    facts |= _pieces(Section.REQUEST, sealed_request)
    async with database.transaction() if call.steer_id or closing else nullcontext():
        try:
            written = await database.execute(_OPEN, facts)
        except UniqueViolation as error:
            if error.diag.constraint_name != "call_of_relay":
                raise
            raise RelayKnown from None
        if written.rowcount != 1:
            return False
        if call.steer_id and (await database.execute(_USE_STEER, [call.id, call.steer_id])).rowcount != 1:
            raise SteerTaken
        if closing:
            await database.execute(_CLOSE_OTHER_WAYS, [channel.session_id, channel.epoch, list(closing)])
    return True


def _pieces(section: Section, sealed: Sequence[bytes]) -> dict[str, object]:
    return {"section": section, "piece_bytes": PIECE_BYTES, "sealed": list(sealed) or None}


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


# The sums come last, the session's before the account's in every statement: whoever waits for one holds nothing that another wants.
_END = f"""
WITH it AS (
    UPDATE gateway_app_call SET state = %(state)s, ended = nextval('gateway_app_tick'), http_status = %(http_status)s,
        headers = %(headers)s, response_bytes = %(response_bytes)s, input_tokens = %(input)s, output_tokens = %(output)s,
        cache_read_tokens = %(cache_read)s, cache_write_tokens = %(cache_write)s,
        model = CASE WHEN %(model)s = '' THEN model ELSE %(model)s END, ended_at = clock_timestamp(),
        first_byte_at = clock_timestamp() - make_interval(secs => %(since_first)s)
    WHERE id = %(id)s AND state = 'open' AND pump = %(pump)s
    RETURNING *
), kept AS (
    INSERT INTO gateway_app_callpiece (call_id, section, number, start, sealed) {_PIECES}
), billed AS (
    INSERT INTO gateway_app_usageentry (account_id, session_id, epoch, call_id, served, billed, provider, model, key_id, input_tokens,
        output_tokens, cache_read_tokens, cache_write_tokens, microusd, price_version)
    SELECT account_id, %(session)s, %(epoch)s, id, %(served)s, true, provider, model, key_id, input_tokens, output_tokens,
        cache_read_tokens, cache_write_tokens, %(price)s::bigint, %(price_version)s
    FROM it WHERE state <> 'refused'
    RETURNING account_id, session_id
), own AS (
    INSERT INTO gateway_app_sessionbudget AS own (session_id, spent_tokens, spent_microusd, unknown_calls, unpriced_calls, billed_calls,
        replayed_calls, replayed_tokens, told_tokens, told_microusd, told_unknown_calls, told_unpriced_calls)
    SELECT session_id, %(tokens)s, %(microusd)s, %(unknown)s, %(unpriced)s, 1, 0, 0, 0, 0, 0, 0 FROM billed
    ON CONFLICT (session_id) DO UPDATE SET spent_tokens = own.spent_tokens + excluded.spent_tokens,
        spent_microusd = own.spent_microusd + excluded.spent_microusd, unknown_calls = own.unknown_calls + excluded.unknown_calls,
        unpriced_calls = own.unpriced_calls + excluded.unpriced_calls, billed_calls = own.billed_calls + 1
    RETURNING session_id
), whole AS (
    INSERT INTO gateway_app_accountbudget AS whole (account_id, spent_tokens, spent_microusd, unknown_calls, unpriced_calls, billed_calls,
        revision)
    SELECT account_id, %(tokens)s, %(microusd)s, %(unknown)s, %(unpriced)s, 1, 0 FROM billed JOIN own USING (session_id)
    ON CONFLICT (account_id) DO UPDATE SET spent_tokens = whole.spent_tokens + excluded.spent_tokens,
        spent_microusd = whole.spent_microusd + excluded.spent_microusd, unknown_calls = whole.unknown_calls + excluded.unknown_calls,
        unpriced_calls = whole.unpriced_calls + excluded.unpriced_calls, billed_calls = whole.billed_calls + 1
)
SELECT 1 FROM it
"""  # noqa: S608  of constants
_ENDED_SO = "SELECT 1 FROM gateway_app_call WHERE id = %s AND pump = %s AND state = %s"


async def end_call(
    database: AsyncConnection[Any], channel: Channel, call: Opened, ended: Ended, sealed: Sequence[bytes], since_first: float | None
) -> bool:
    """The end of a call, its bytes and its bill, durable at return. False if somebody else has ended it: nothing was written.

    Safe to repeat: a connection that broke while it committed does not tell whether it did.
    """
    tokens = ended.tokens
    facts: dict[str, object] = {
        "id": call.id,
        "pump": call.pump,
        "session": channel.session_id,
        "epoch": channel.epoch,
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
        "served": Served.UPSTREAM,
        "price": ended.price,
        "price_version": ended.price_version,
        "tokens": tokens.total or 0,
        "microusd": ended.price or 0,
        "unknown": int(tokens.total is None),
        "unpriced": int(ended.price is None),
        **_pieces(Section.RESPONSE, sealed),
    }
    if (await database.execute(_END, facts)).rowcount == 1:
        return True
    found = await database.execute(_ENDED_SO, [call.id, call.pump, ended.state])
    return await found.fetchone() is not None
