from django.db import models
from django.db.models.functions import Now

from checkpoints_app.models import Pin


class FormerPin(models.Model):
    """A pin that a host proved once and does not any more: what was saved under it could resume there. The host is a value: it may go."""

    host_id = models.CharField(max_length=64)
    pin = models.ForeignKey(Pin, on_delete=models.PROTECT, related_name="former")
    proved_at = models.DateTimeField()  # for the last time
    lost_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host_id", "pin"], name="one_former_pin")]

    def __str__(self) -> str:
        return f"{self.host_id} {self.pin_id[:12]}"
