from django.db import models
from django.db.models.functions import Now


class GatewayProcess(models.Model):
    """A gateway process as it tells of itself every few seconds. `host_id` is a value; its row goes when its process does.

    `name` is what its open calls name as their pump. `database_seconds`: one statement's way there and back, the last time.
    """

    name = models.CharField(primary_key=True, max_length=64)
    host_id = models.CharField(max_length=64)
    draining = models.BooleanField(default=False)
    doors = models.PositiveIntegerField(default=0)  # machines that it listens to
    calls = models.PositiveIntegerField(default=0)  # that it reads
    streams = models.PositiveIntegerField(default=0)  # of these
    database_seconds = models.FloatField(null=True, blank=True)
    started_at = models.DateTimeField(db_default=Now(), editable=False)
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["host_id"], name="gateway_of_host")]

    def __str__(self) -> str:
        return self.name
