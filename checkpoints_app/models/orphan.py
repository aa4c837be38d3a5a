from django.db import models
from django.db.models.functions import Now


class OrphanObject(models.Model):
    """An object of the store that no row names, by its key, since when that is so, and since when it lies in quarantine."""

    key = models.CharField(primary_key=True, max_length=512)
    object_bytes = models.PositiveBigIntegerField()
    first_seen_at = models.DateTimeField(db_default=Now())
    quarantined_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.key
