from django.db import models
from django.db.models.functions import Now


class FleetWatch(models.Model):
    """Since when the fleet's turns have looked at its hosts without a gap (workers/fleet/watch.py). There is one row."""

    id = models.PositiveSmallIntegerField(primary_key=True)
    since = models.DateTimeField(db_default=Now())
    looked_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"since {self.since}"
