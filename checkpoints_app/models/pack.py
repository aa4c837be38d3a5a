from django.db import models
from django.db.models.functions import Now

from checkpoints_app.models.checkpoint import Checkpoint
from checkpoints_app.states import PackState
from sessions_app.models import Account


class Pack(models.Model):
    """An object of the store that holds sealed units of one account."""

    id = models.CharField(primary_key=True, max_length=64)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="packs")
    state = models.CharField(max_length=12, choices=[(s.value, s.value) for s in PackState], default=PackState.LIVE)
    stored_bytes = models.PositiveBigIntegerField()
    unit_count = models.PositiveIntegerField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    def __str__(self) -> str:
        return self.id


class PackEdge(models.Model):
    """This checkpoint needs that pack. Edges, not counters, decide what is held."""

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="edges")
    pack = models.ForeignKey(Pack, on_delete=models.PROTECT, related_name="edges")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["checkpoint", "pack"], name="one_edge")]

    def __str__(self) -> str:
        return f"{self.checkpoint_id} -> {self.pack_id}"
