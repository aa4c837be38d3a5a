"""A restart of the database breaks every connection of a pool: one caller at most hears of it, and none waits once for each of them."""

import asyncio
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg_pool import ConnectionPool

from gateway_app.proxy import pool as gateway_pool
from sessions_app.bounded import bounded

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]
NAME, COUNT = "broken-connections", 6


def parameters() -> dict[str, Any]:
    known = connection.get_connection_params()
    return {name: known[name] for name in ("dbname", "user", "host", "port", "password") if name in known}


def cut(name: str) -> None:
    """Every connection of the name, as a restart ends them. Returns when they are gone."""
    asked = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
    with psycopg.connect(**parameters()) as own:
        assert own.execute(asked, [name]).rowcount >= COUNT, "there were connections to cut"


def test_a_pool_that_looks_first_finds_one_broken_and_exchanges_them_all() -> None:
    given, looks = {**parameters(), "application_name": NAME}, list[bool]()

    def look(one: psycopg.Connection[Any]) -> None:
        """Before one is given out. The pool pauses for a second after each that is broken."""
        try:
            ConnectionPool.check_connection(one)
        finally:
            looks.append(not one.broken)

    with ConnectionPool(kwargs=given, connection_class=bounded(10), check=look, min_size=COUNT, max_size=COUNT, timeout=10) as pool:
        pool.wait()
        cut(NAME)
        with pool.connection() as one:
            assert one.execute("SELECT 1").fetchone() == (1,)
    assert looks == [False, True]


def test_after_one_broken_in_use_the_pool_gives_out_none_of_its_time() -> None:
    given = {**parameters(), "application_name": NAME}
    with ConnectionPool(kwargs=given, connection_class=bounded(10), min_size=COUNT, max_size=COUNT, timeout=10) as pool:
        pool.wait()
        cut(NAME)
        with pytest.raises(psycopg.OperationalError), pool.connection() as one:
            one.execute("SELECT 1")
        with ExitStack() as held:
            for _ in range(COUNT):
                assert held.enter_context(pool.connection()).execute("SELECT 1").fetchone() == (1,)


def test_connections_that_break_together_are_exchanged_once() -> None:
    given = {**parameters(), "application_name": NAME}
    with ConnectionPool(kwargs=given, connection_class=bounded(10), min_size=COUNT, max_size=COUNT, timeout=10) as pool:
        with ExitStack() as held:
            broken = [held.enter_context(pool.connection()) for _ in range(COUNT)]
            cut(NAME)
            for one in broken:
                with pytest.raises(psycopg.OperationalError):
                    one.execute("SELECT 1")
        before = pool.get_stats()["connections_num"]
        with ExitStack() as held:
            for _ in range(COUNT):
                held.enter_context(pool.connection())
        assert pool.get_stats()["connections_num"] - before <= COUNT


def test_nor_does_the_gateway_give_out_another_that_it_trusts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_pool, "TRUSTED_SECONDS", 60.0)

    async def ask() -> None:
        async with gateway_pool.pool() as pool:
            async with AsyncExitStack() as held:
                for _ in range(COUNT):
                    await held.enter_async_context(pool.connection())
            cut(gateway_pool.NAME)
            with pytest.raises(psycopg.OperationalError):
                async with pool.connection() as one:
                    await one.execute("SELECT 1")
            for _ in range(COUNT):
                async with pool.connection() as one:
                    await one.execute("SELECT 1")

    asyncio.run(ask())
