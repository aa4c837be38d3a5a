"""A database that stands still, as one whose disk does not answer: who asks it is told so after a while, and does not wait for ever."""

import asyncio

import pytest
from django.db import connection
from psycopg_pool import ConnectionPool
from psycopg_pool.base import AttemptWithBackoff

from sessions_app.bounded import Silent, bounded, bounded_async, reconnect_steadily
from tests.support.stopped import standing_still

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]
SECONDS = 0.2


def parameters() -> dict[str, object]:
    known = connection.get_connection_params()
    return {name: known[name] for name in ("dbname", "user", "host", "port", "password") if name in known}


def test_a_statement_is_not_waited_for_longer_than_its_bound() -> None:
    with bounded(SECONDS).connect(**parameters()) as one, standing_still(one.info.backend_pid):  # type: ignore[arg-type]
        with pytest.raises(Silent, match="has not answered"):
            one.execute("SELECT 1")
        assert one.closed, "a late answer would be taken for that of another question"


def test_nor_by_the_gateway() -> None:
    async def ask() -> None:
        async with await bounded_async(SECONDS).connect(**parameters()) as one:  # type: ignore[arg-type]
            with standing_still(one.info.backend_pid):
                with pytest.raises(Silent):
                    await one.execute("SELECT 1")
                assert one.closed

    asyncio.run(ask())


def test_a_pool_gives_out_another_connection_than_the_one_that_stands_still() -> None:
    kind = bounded(SECONDS)
    check = ConnectionPool.check_connection
    with ConnectionPool(kwargs=parameters(), connection_class=kind, check=check, min_size=1, max_size=2, timeout=10) as pool:
        with pool.connection() as one:
            pid = one.info.backend_pid
        with standing_still(pid), pool.connection() as another:
            assert another.info.backend_pid != pid


def test_pools_do_not_pause_longer_the_longer_a_database_was_away() -> None:
    reconnect_steadily()
    attempt, now, pauses = AttemptWithBackoff(timeout=300), 0.0, []
    for _ in range(60):
        attempt.update_delay(now)
        pauses.append(attempt.delay)
        now += attempt.delay
    assert max(pauses) < 1.5
