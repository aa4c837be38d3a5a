"""Many rows like one: a model's instance says what they have in common, SQL expressions what differs. The database makes them."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.models import Model
from django.db.models.expressions import DatabaseDefault


def insert(like: Model, source: str, **differing: str) -> None:
    """One row of the model's table for each row of `source` (what stands after FROM), the columns named in `differing` by SQL over it.

    What `like` leaves to the database stays the database's. No foreign key is checked and no trigger fires: the caller's rows must fit.
    """
    columns, values, parameters = [], [], []
    for field in like._meta.concrete_fields:
        if field.column in differing:
            values.append(differing[field.column].replace("%", "%%"))
        else:
            value = getattr(like, field.attname)
            if isinstance(value, DatabaseDefault) or (field.primary_key and value is None):
                continue
            values.append("%s")
            parameters.append(field.get_db_prep_save(value, connection))
        columns.append(connection.ops.quote_name(str(field.column)))
    unknown = set(differing) - {field.column for field in like._meta.concrete_fields}
    if unknown:
        raise ValueError(f"{like._meta.label} has no columns {sorted(unknown)}")
    table = connection.ops.quote_name(like._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {source.replace('%', '%%')}", parameters
        )
        cursor.execute("RESET session_replication_role")


@contextmanager
def bare(*models: type[Model]) -> Iterator[None]:
    """Without the tables' indexes but those of their constraints; they are built anew at the end, which is several times as quick."""
    tables = [model._meta.db_table for model in models]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s) AND indexname NOT IN (SELECT conname FROM pg_constraint)",
            [tables],
        )
        found = cursor.fetchall()
        for name, _ in found:
            cursor.execute(f"DROP INDEX {connection.ops.quote_name(name)}")
    yield
    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = '512MB'")
        for _, definition in found:
            cursor.execute(definition)


def scalars(statement: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [str(value) for (value,) in cursor.fetchall()]
