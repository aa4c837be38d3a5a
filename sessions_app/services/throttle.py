"""How often a caller may ask: rates per token, account and address, counted in Redis, all of a request's in one round trip.

A bucket is a leaky one (GCRA): it takes a minute's worth at once, and then as much as has leaked out. Where Redis does not answer, requests
pass: a service that answers nobody is worse than one that answers too much.
"""

import functools
import math
from dataclasses import dataclass

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.commands.core import Script
from redis.retry import Retry

from sessions_app.errors import Throttled
from sessions_app.models import ApiToken
from sessions_app.services.silence import Silence

MINUTE = 60_000_000  # microseconds
#: What a request waits for Redis at most, twice (a connection that has gone stale is opened again).
TIMEOUT_SECONDS = 0.25
#: Of every bucket the time until which it is full: all are looked at before one is written, so a refused request costs nothing.
_SCRIPT = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local full = {}
for i, key in ipairs(KEYS) do
  local step = tonumber(ARGV[i])
  full[i] = math.max(tonumber(redis.call('GET', key) or now), now) + step
  local wait = full[i] - now - tonumber(ARGV[#KEYS + 1])
  if wait > 0 then return {i, math.ceil(wait)} end
end
for i, key in ipairs(KEYS) do
  redis.call('SET', key, string.format('%.0f', full[i]), 'PX', math.ceil((full[i] - now) / 1000))
end
return {0, 0}
"""


@dataclass(frozen=True)
class Bucket:
    """What is counted together: `name` is of ids alone, `whom` says it to the caller. A rate of 0 has no bound."""

    name: str
    per_minute: int
    whom: str


def of_token(token: ApiToken) -> list[Bucket]:
    return [
        Bucket(f"token:{token.id}", settings.KEEPSTATE_RATE_TOKEN, "This token"),
        Bucket(f"account:{token.account_id}", settings.KEEPSTATE_RATE_ACCOUNT, "This account"),
    ]


def of_address(place: str) -> list[Bucket]:
    """`place` as sessions_app/api/address.py counts places."""
    return [Bucket(f"address:{place}", settings.KEEPSTATE_RATE_ADDRESS, "This address")]


def require(buckets: list[Bucket]) -> None:
    """Count one request in all of them, or raise Throttled and count it in none."""
    bounded = [bucket for bucket in buckets if bucket.per_minute]
    if not bounded or _silence.lasts():
        return
    steps = [math.ceil(MINUTE / bucket.per_minute) for bucket in bounded]
    try:
        refused, wait = _spend()(keys=[f"ks:rate:{bucket.name}" for bucket in bounded], args=[*steps, MINUTE])
    except redis.RedisError as error:
        _silence.begin(error)
        return
    _silence.end()
    if refused:
        raise _throttled(bounded[refused - 1], math.ceil(wait / 1_000_000))


def _throttled(bucket: Bucket, seconds: int) -> Throttled:
    return Throttled(
        f"{bucket.whom} has asked as often as it may: {bucket.per_minute} times in a minute. Nothing was done.",
        next_action=f"Ask again in {seconds} s.",
        retry_after_seconds=seconds,
    )


@functools.cache
def _spend() -> Script:
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS, retry=Retry(NoBackoff(), 1)
    )
    return client.register_script(_SCRIPT)


_silence = Silence("requests are not throttled: Redis does not answer")
