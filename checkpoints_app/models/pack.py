from django.db import models
from django.db.models.functions import Now

from checkpoints_app.models.checkpoint import Checkpoint
from checkpoints_app.states import PackState
from sessions_app.models import Account


class Pack(models.Model):
    """A pack of sealed units of one account. Its object in the store is that of `generation`; `units` are the units with content there.

    Objects of other generations from `cleared_generation` to `reserved_generation` may exist while the state is `rewriting`, and then only.
    `bad` are units that a checkpoint needs and that cannot be read. Sets of units: checkpoints_app/store/bitmap.py.
    """

    id = models.CharField(primary_key=True, max_length=64)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="packs")
    state = models.CharField(max_length=12, choices=[(s.value, s.value) for s in PackState], default=PackState.LIVE)
    generation = models.PositiveIntegerField(default=0)
    reserved_generation = models.PositiveIntegerField(default=0)
    cleared_generation = models.PositiveIntegerField(default=0)
    stored_bytes = models.PositiveBigIntegerField()
    unit_count = models.PositiveIntegerField()
    units = models.BinaryField()
    bad = models.BinaryField(default=b"")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    verified_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["account", "state"], name="pack_not_live", condition=~models.Q(state=PackState.LIVE)),
            models.Index(fields=["account", "-created_at", "id"], name="pack_newest", condition=models.Q(state=PackState.LIVE)),
            models.Index(fields=["verified_at", "id"], name="pack_verified"),
            models.Index(fields=["-created_at", "-id"], name="pack_newest_of_all"),
        ]

    def __str__(self) -> str:
        return self.id


class PackEdge(models.Model):
    """This checkpoint needs these units of that pack. Edges, not counters, decide what is held."""

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="edges")
    pack = models.ForeignKey(Pack, on_delete=models.PROTECT, related_name="edges")
    units = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["checkpoint", "pack"], name="one_edge")]

    def __str__(self) -> str:
        return f"{self.checkpoint_id} -> {self.pack_id}"
