"""Whether this machine could work in its fleet: each thing that all hosts share, looked at before any worker starts.

What is wrong here would not fail at once: a host on another store or master key takes work, and loses or refuses what it is given.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from checkpoints_app.services import key, storage
from checkpoints_app.store import StoreError
from workers.host.claim import refused
from workers.host.identity import host_id

REDIS_SECONDS = 5.0
#: Leases are the database's clock, but a guest gets its host's, and an S3 server refuses requests that are a quarter of an hour off.
CLOCK_SECONDS = 2.0


@dataclass(frozen=True)
class Found:
    """`problem`: why no worker may start here. `doubt`: what an operator should know all the same. At most one of them is set."""

    name: str
    text: str
    problem: bool = False
    doubt: bool = False


def look() -> Iterator[Found]:
    """Without a database, or with another schema, nothing further can be asked of it."""
    try:
        connection.ensure_connection()
    except DatabaseError as error:
        yield Found("database", f"DATABASE_URL does not answer: {str(error).strip().splitlines()[0]}", problem=True)
        yield broker()
        return
    yield Found("database", "answers")
    yield broker()
    schema = migrations()
    yield schema
    if not schema.problem:
        yield from (check() for check in (store, master_key, clock))
        if settings.KEEPSTATE_HOST_ID:  # a front, or who only looks, has no id to take
            yield own_id()


def broker() -> Found:
    with ExitStack() as opened:
        try:
            client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS)
            opened.enter_context(client).ping()
        except redis.RedisError as error:
            return Found("broker", f"REDIS_URL does not answer: {error}", problem=True)
    return Found("broker", "answers")


def migrations() -> Found:
    """A newer database is what a host of the release before meets while the fleet is upgraded, and may be worked with."""
    loader = MigrationLoader(connection)
    wanted, applied = set(loader.disk_migrations), set(loader.applied_migrations)
    missing = sorted(".".join(name) for name in wanted - applied)
    ours = {app for app, _ in wanted}
    newer = sorted(".".join(name) for name in applied - wanted if name[0] in ours)
    if missing:
        what = f"the database lacks {len(missing)} migrations of this release, from {missing[0]} on: upgrade the front first"
        return Found("migrations", f"{what} (./keepstate up, or ./keepstate manage migrate)", problem=True)
    if newer:
        return Found("migrations", f"the database is of a newer release ({newer[-1]}): upgrade this host too", doubt=True)
    return Found("migrations", "those of this release")


def store() -> Found:
    try:
        storage.backend()
        storage.require_known()
    except (StoreError, OSError) as error:
        return Found("store", f"CHECKPOINT_STORE_URL: {error}", problem=True)
    return Found("store", "answers, and is the one that the database tells of")


def master_key() -> Found:
    """Judged by the accounts' keys, which it wraps: before the first save of any account there is nothing to judge by."""
    fits = key.master_key_fits()
    if fits is None:
        return Found("master key", "no account has saved anything yet, so it could not be compared with the fleet's", doubt=True)
    if not fits:
        return Found(
            "master key", "it opens no account's key: KEEPSTATE_MASTER_KEY, or secrets/master_key, is not the fleet's", problem=True
        )
    return Found("master key", "opens what the fleet has saved")


def own_id() -> Found:
    refusal = refused()
    return Found("id", refusal or f"{host_id()} is this installation's to take", problem=bool(refusal))


def clock() -> Found:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (theirs,) = cursor.fetchone()
    off = (timezone.now() - theirs).total_seconds()
    if abs(off) > CLOCK_SECONDS:
        return Found("clock", f"is {off:+.1f} s off the database's: set it by NTP", doubt=True)
    return Found("clock", "agrees with the database's")
