"""What decides whether a machine's call may leave, in one statement."""

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from gateway_app.proxy.channel import Channel
from gateway_app.states import Provider

#: States in which a machine may call. Its processors run before its session counts as running: what it asks in that moment is answered,
#: for its epoch has begun and its window is open. Whatever ran before it has another epoch.
RUNS = ["running", "checkpointing", "resuming"]


@dataclass(frozen=True)
class Standing:
    """What decides whether a call may leave, as of now."""

    runs: bool  # in this epoch
    key_id: str | None
    key_last4: str
    key_secret: bytes
    over: str  # which budget is spent; empty if none is
    has_window: bool
    steer_id: str | None
    steer_text: bytes


_STANDING = """
SELECT session.epoch = %(epoch)s AND session.runtime_state = ANY(%(runs)s),
       key.id, coalesce(key.last4, ''), key.secret,
       CASE WHEN own.spent_tokens >= session.budget_tokens THEN 'session''s budget of tokens'
            WHEN own.spent_microusd >= own.microusd THEN 'session''s budget of money'
            WHEN whole.spent_tokens >= whole.tokens THEN 'account''s budget of tokens'
            WHEN whole.spent_microusd >= whole.microusd THEN 'account''s budget of money'
            ELSE '' END,
       EXISTS (SELECT 1 FROM gateway_app_windowentry AS entry WHERE entry.session_id = session.id AND entry.epoch = %(epoch)s
               AND entry.consumed_at IS NULL AND entry.open_until > now()),
       steer.id, steer.sealed_text
FROM sessions_app_session AS session
LEFT JOIN gateway_app_keybinding AS bound ON bound.session_id = session.id AND bound.provider = %(provider)s
LEFT JOIN gateway_app_providerkey AS key ON key.id = bound.key_id AND key.enabled
LEFT JOIN gateway_app_sessionbudget AS own ON own.session_id = session.id
LEFT JOIN gateway_app_accountbudget AS whole ON whole.account_id = session.account_id
LEFT JOIN LATERAL (SELECT id, sealed_text FROM gateway_app_steer WHERE session_id = session.id AND used_at IS NULL
                   ORDER BY created_at LIMIT 1) AS steer ON true
WHERE session.id = %(session)s AND session.account_id = %(account)s
"""


async def standing(database: AsyncConnection[Any], channel: Channel, provider: Provider) -> Standing | None:
    """None if the channel's session is not there any more."""
    place = {"epoch": channel.epoch, "session": channel.session_id, "account": channel.account_id, "runs": RUNS}
    found = await database.execute(_STANDING, {**place, "provider": provider})
    row = await found.fetchone()
    if row is None:
        return None
    runs, key_id, last4, secret, over, has_window, steer_id, steer = row
    return Standing(bool(runs), key_id, last4, bytes(secret or b""), over, has_window, steer_id, bytes(steer or b""))


_RUNS = "SELECT 1 FROM sessions_app_session WHERE id = %s AND account_id = %s AND epoch = %s AND runtime_state = ANY(%s)"


async def runs(database: AsyncConnection[Any], channel: Channel) -> bool:
    """Whether the channel's epoch is its session's present one, and that runs."""
    found = await database.execute(_RUNS, [channel.session_id, channel.account_id, channel.epoch, RUNS])
    return await found.fetchone() is not None
