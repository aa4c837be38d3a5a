"""The database's clock: every age on the dashboard is told by it."""

from datetime import datetime

from django.db import connection


def now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        moment: datetime = cursor.fetchone()[0]
        return moment
