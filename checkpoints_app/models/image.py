from django.db import models
from django.db.models.functions import Now


class Image(models.Model):
    """A guest image by its content digest: read-only, public to every account. The newest of a name is what a new session gets."""

    digest = models.CharField(primary_key=True, max_length=64)
    name = models.CharField(max_length=100, db_index=True)
    architecture = models.CharField(max_length=16)
    default_memory_bytes = models.PositiveBigIntegerField()
    disk_bytes = models.PositiveBigIntegerField(default=0)
    facts = models.JSONField(default=dict)
    registered_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.name} {self.digest[:12]}"
