from django.db import models
from django.db.models.functions import Now

from checkpoints_app.models.checkpoint import Checkpoint
from checkpoints_app.states import ManifestState
from sessions_app.models import Account


class Manifest(models.Model):
    """An object of the store that says where the units of a checkpoint lie, maybe as a delta to other manifests."""

    id = models.CharField(primary_key=True, max_length=64)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="manifests")
    state = models.CharField(max_length=12, choices=[(s.value, s.value) for s in ManifestState], default=ManifestState.LIVE)
    stored_bytes = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    verified_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["account", "state"], name="manifest_not_live", condition=~models.Q(state=ManifestState.LIVE)),
            models.Index(fields=["verified_at", "id"], name="manifest_verified"),
            models.Index(fields=["-created_at", "-id"], name="manifest_newest_of_all"),
        ]

    def __str__(self) -> str:
        return self.id


class ManifestEdge(models.Model):
    """This checkpoint needs that manifest: its own, or one that its own builds on."""

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="manifest_edges")
    manifest = models.ForeignKey(Manifest, on_delete=models.PROTECT, related_name="edges")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["checkpoint", "manifest"], name="one_manifest_edge")]

    def __str__(self) -> str:
        return f"{self.checkpoint_id} -> {self.manifest_id}"
