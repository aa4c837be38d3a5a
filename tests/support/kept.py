"""Tests may do what the database's own rules forbid: begin with empty tables, and lose rows as a lost database would."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.backends.postgresql.operations import DatabaseOperations

_WITHOUT_RULES = "SET LOCAL session_replication_role = replica"


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
    """What pytest does after a test with transactions of its own truncates every table, in one transaction."""
    flush = DatabaseOperations.sql_flush

    def sql_flush(self: DatabaseOperations, *arguments: Any, **options: Any) -> list[str]:
        statements = flush(self, *arguments, **options)
        return [_WITHOUT_RULES, *statements] if statements else statements

    DatabaseOperations.sql_flush = sql_flush  # type: ignore[method-assign,assignment]
