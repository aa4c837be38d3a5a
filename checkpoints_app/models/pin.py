from django.db import models
from django.db.models.functions import Now


class Pin(models.Model):
    """What must be equal for a checkpoint to resume, by the digest of its facts (hypervisor build, accelerator, kernel, …)."""

    digest = models.CharField(primary_key=True, max_length=64)
    architecture = models.CharField(max_length=16)
    facts = models.JSONField()
    first_seen_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.architecture} {self.digest[:12]}"
