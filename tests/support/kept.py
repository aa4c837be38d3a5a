"""Tests may do what the database's own rules forbid: begin with empty tables, and lose rows as a lost database would."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.commands import flush
from django.db import connection, transaction
from django.db.backends.postgresql.operations import DatabaseOperations

_WITHOUT_RULES = "SET LOCAL session_replication_role = replica"
#: What migrating writes: it tells what exists, not what a test did, and no test changes it.
_DESCRIBING = frozenset({"django_content_type", "auth_permission"})


@contextmanager
def without_rules() -> Iterator[None]:
    """One transaction in which no trigger fires; foreign keys are not checked either."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_WITHOUT_RULES)
        yield
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = origin")


def let_tests_empty_tables() -> None:
    """From now on, what is cleaned up after a test with transactions of its own goes by deletion, in one transaction.

    Django truncates every table and makes the rows of its permissions anew. To truncate is to make a file for each table and index, a
    tenth of a second of processor time for a handful of rows, and one test in five commits.
    """
    DatabaseOperations.sql_flush = _deletions  # type: ignore[method-assign,assignment]
    flush.emit_post_migrate_signal = _nothing  # type: ignore[attr-defined]


def _deletions(self: DatabaseOperations, style: Any, tables: list[str], **_: bool) -> list[str]:
    gone = [f"DELETE FROM {self.quote_name(table)}" for table in tables if table not in _DESCRIBING]
    return ["; ".join([_WITHOUT_RULES, *gone])]


def _nothing(*_: Any, **__: Any) -> None:
    """Instead of making the permissions' rows anew: they are still there."""
