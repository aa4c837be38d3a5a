from django.db import models
from django.db.models.functions import Now


class Sweep(models.Model):
    """How a recurring look through the store goes: the run that goes on or was the last one, and what it found."""

    name = models.CharField(primary_key=True, max_length=30)
    registered_at = models.DateTimeField(db_default=Now(), editable=False)  # since when its turns are expected
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    objects_done = models.PositiveBigIntegerField(default=0)
    bytes_done = models.PositiveBigIntegerField(default=0)
    bytes_wanted = models.PositiveBigIntegerField(null=True, blank=True)
    report = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.name
