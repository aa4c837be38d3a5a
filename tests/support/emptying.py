"""How a test that commits is cleaned up after: every row goes, by deletion.

Django truncates every table and makes the rows of its permissions anew. To truncate is to make a file for each table and index, a tenth of
a second of processor time for a handful of rows, and one test in five commits.
"""

from typing import Any

from django.core.management.commands import flush
from django.db.backends.postgresql.operations import DatabaseOperations

#: What migrating writes: it tells what exists, not what a test did, and no test changes it.
_DESCRIBING = frozenset({"django_content_type", "auth_permission"})


def by_deletion() -> None:
    """From now on, in this process. The tests' database user must be a superuser: triggers that keep a history and keys that would order
    the deletions are passed over.
    """
    DatabaseOperations.sql_flush = _sql_flush
    flush.emit_post_migrate_signal = _nothing


def _sql_flush(self: DatabaseOperations, style: Any, tables: list[str], **_: bool) -> list[str]:
    deletions = [f"DELETE FROM {self.quote_name(table)}" for table in tables if table not in _DESCRIBING]
    return ["; ".join(["SET LOCAL session_replication_role = replica", *deletions])]


def _nothing(*_: Any, **__: Any) -> None:
    """Instead of making the permissions' rows anew: they are still there."""
