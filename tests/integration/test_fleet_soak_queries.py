"""The soak looks at rows by SQL of its own, at the end of half an hour: a column that is gone since is told here."""

import pytest
from django.db import connection

from tests.bench.fleet.house import QUERIES
from tests.bench.fleet.judge import ROWS, ROWS_OF_NONE


@pytest.mark.django_db
def test_every_query_of_the_soak_fits_the_schema_and_finds_nothing_where_nothing_is() -> None:
    with connection.cursor() as cursor:
        for query, values in [*QUERIES, *((query, 0) for query in (*ROWS.values(), *ROWS_OF_NONE.values()))]:
            cursor.execute(query, ["none"] * values)
            assert cursor.fetchall() == [], query
