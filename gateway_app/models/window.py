from django.db import models

from gateway_app.calls.window import Why
from gateway_app.models.call import Call
from sessions_app.models import Session


class WindowEntry(models.Model):
    """A recorded call that may answer a request of one epoch of one session, once (gateway_app.calls.window)."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="window")
    epoch = models.PositiveIntegerField()
    call = models.ForeignKey(Call, on_delete=models.CASCADE, related_name="window_entries")
    why = models.CharField(max_length=12, choices=[(one.value, one.value) for one in Why])
    order = models.PositiveBigIntegerField()
    open_until = models.DateTimeField()
    consumed_at = models.DateTimeField(null=True, blank=True)
    consumed_by = models.CharField(max_length=64, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)  # who consumed it had all of it: until then its retry may have it again

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "epoch", "call"], name="window_entry")]
        indexes = [
            models.Index(fields=["session", "epoch", "order"], name="window_open", condition=models.Q(consumed_at__isnull=True)),
            models.Index(fields=["open_until"], name="window_age"),
            models.Index(fields=["session", "consumed_by"], name="window_taken", condition=~models.Q(consumed_by="")),
        ]

    def __str__(self) -> str:
        return f"{self.call_id} in epoch {self.epoch}"


class EpochOrigin(models.Model):
    """What an epoch of a session goes on from: an epoch of this session, or of the one that it was forked from, up to a tick.

    An epoch without this row began with a boot, or from a checkpoint without a tick. The other session is named by value: it may go.
    """

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="epoch_origins")
    epoch = models.PositiveIntegerField()
    from_id = models.CharField(max_length=32)
    from_epoch = models.PositiveIntegerField()
    watermark = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "epoch"], name="one_origin")]

    def __str__(self) -> str:
        return f"epoch {self.epoch} from {self.from_id} {self.from_epoch}"
