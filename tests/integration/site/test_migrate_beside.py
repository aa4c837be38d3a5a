"""`manage.py migrate` while the service works: a table that is in use for long keeps the migration waiting, and nobody else."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from keepstate_site.schema import patience
from keepstate_site.schema.patience import Patience
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
LONG = 60


@pytest.fixture(autouse=True)
def next_release(settings: Settings) -> Iterator[None]:
    """A release is there whose migrations of the table of hosts are not applied; at the end the schema is what it was."""
    settings.MIGRATION_MODULES = {"workers": "tests.integration.site.next_release.migrations"}
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX IF EXISTS host_rack")
        cursor.execute("ALTER TABLE workers_host DROP COLUMN IF EXISTS rack")
        cursor.execute("DELETE FROM django_migrations WHERE name IN ('s001_column', 's002_index')")


@contextmanager
def other_connection(options: str = "-c statement_timeout=30000") -> Iterator[psycopg.Connection[Any]]:
    """A client of the same database that gives up, instead of waiting for ever, what it is kept from."""
    with psycopg.connect(**connection.get_connection_params() | {"options": options}, autocommit=True) as other:
        yield other


@contextmanager
def in_use() -> Iterator[None]:
    """Somebody's long transaction has written to the table of hosts."""
    with other_connection() as holder, holder.transaction():
        holder.execute("UPDATE workers_host SET cpus = cpus")
        yield


class Migrating(threading.Thread):
    """`manage.py migrate` as a process of its own would run it: on its own connection."""

    def __init__(self, target: str) -> None:
        super().__init__(daemon=True)
        self.target, self.said, self.error = target, io.StringIO(), ""

    def run(self) -> None:
        try:
            migrate(self.target, LONG, self.said)
        except CommandError as error:
            self.error = str(error)
        finally:
            connection.close()


def migrate(target: str, seconds: int = LONG, said: io.StringIO | None = None) -> None:
    call_command("migrate", "workers", target, patience=seconds, stdout=said or io.StringIO(), skip_checks=True)


def valid_indexes() -> list[bool]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relname = 'host_rack'")
        return [valid for (valid,) in cursor.fetchall()]


def columns() -> set[str]:
    with connection.cursor() as cursor:
        return {column.name for column in connection.introspection.get_table_description(cursor, "workers_host")}


def test_a_migration_waits_in_short_tries_and_others_go_through_meanwhile() -> None:
    migrating = Migrating("s001_column")
    with in_use(), other_connection() as customer:
        migrating.start()
        until(lambda: migrating.error or "others go first" in migrating.said.getvalue(), LONG, "a try was given up: ")
        for _ in range(20):  # whatever try they meet, they wait for it alone, and not for the transaction
            customer.execute("SELECT count(*) FROM workers_host")
            customer.execute("UPDATE workers_host SET cpus = cpus")
        assert "rack" not in columns()
        assert migrating.is_alive()
    migrating.join(LONG)
    assert (migrating.error, "rack" in columns()) == ("", True)


def test_patience_ends_with_a_refusal_that_names_the_oldest_transaction_and_leaves_all_as_it_was() -> None:
    with (
        in_use(),
        pytest.raises(CommandError, match=r"(?s)was not applied.*Oldest transactions:\n    process \d+ of keepstate-command, idle in"),
    ):
        migrate("s001_column", seconds=0)
    assert "rack" not in columns()


def test_an_index_that_an_earlier_try_left_unfinished_is_built_anew() -> None:
    migrate("s001_column")
    with in_use(), other_connection("-c lock_timeout=50") as died, pytest.raises(psycopg.errors.LockNotAvailable):
        died.execute("CREATE INDEX CONCURRENTLY host_rack ON workers_host (rack)")
    assert valid_indexes() == [False]
    migrate("s002_index")
    assert valid_indexes() == [True]


def test_two_migrations_at_once_take_turns() -> None:
    with other_connection() as other:
        other.execute("SELECT pg_advisory_lock(%s)", [patience._LOCK])
        with pytest.raises(CommandError, match="Another process changes the schema"):
            migrate("s001_column", seconds=0)
    with patience.alone(connection, Patience(LONG)):
        pass


def test_a_connection_waits_as_before_once_its_migrations_are_done() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        before = cursor.fetchone()
        migrate("s001_column")
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == before
