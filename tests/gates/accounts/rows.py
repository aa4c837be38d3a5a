"""What the database holds of somebody, as digests: equal before and after means that nothing of his was changed."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from django.apps import apps
from django.db import connection, transaction

_DIGEST = (
    "SELECT '{table}', coalesce(md5(string_agg(r, chr(10) ORDER BY r)), '') FROM (SELECT t::text AS r FROM {table} t) AS s WHERE r ~ %s"
)
OURS = ("sessions_app", "checkpoints_app", "gateway_app", "workers")


def _tables() -> list[str]:
    return sorted(model._meta.db_table for label in OURS for model in apps.get_app_config(label).get_models())


def digests(ids: Iterable[str]) -> dict[str, str]:
    """Of every table, a digest of the rows in which one of the ids stands, in whatever column."""
    pattern = "|".join(re.escape(one) for one in ids)
    each = [_DIGEST.format(table=table) for table in _tables()]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(each), [pattern] * len(each))
        return dict(cursor.fetchall())


def counts() -> dict[str, int]:
    """How many rows each table has."""
    each = [f"SELECT '{table}', count(*) FROM {table}" for table in _tables()]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(each))
        return dict(cursor.fetchall())


@contextmanager
def undone() -> Iterator[None]:
    """What is done inside is as if it had not been, so that the next request meets the same."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
