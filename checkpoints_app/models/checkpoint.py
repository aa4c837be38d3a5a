import secrets

from django.db import models
from django.db.models.functions import Now

from checkpoints_app.models.pin import Pin
from checkpoints_app.states import CheckpointState
from sessions_app.models import Account, Session


def new_checkpoint_id() -> str:
    return "ck_" + secrets.token_hex(12)


class Checkpoint(models.Model):
    """A saved moment of a session. Sizes in bytes; a figure that is not known is null.

    Published means: every object it needs is durable, and one commit made it so.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_checkpoint_id, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="checkpoints")
    session = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="checkpoints")
    parent = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="children")
    state = models.CharField(max_length=12, choices=[(s.value, s.value) for s in CheckpointState], default=CheckpointState.CAPTURING)
    operation_id = models.CharField(max_length=40)
    lease_token = models.BigIntegerField()

    pin = models.ForeignKey(Pin, on_delete=models.PROTECT, related_name="checkpoints")
    image_digest = models.CharField(max_length=64)
    source_epoch = models.PositiveIntegerField()
    reason = models.CharField(max_length=200, blank=True)
    boundary = models.CharField(max_length=20, default="live")
    name = models.CharField(max_length=48, blank=True)  # its owner's; a named one never expires
    held_at = models.DateTimeField(null=True, blank=True)  # by an operator; a held one never expires
    hold_reason = models.CharField(max_length=200, blank=True)
    event_watermark = models.PositiveBigIntegerField()
    watermarks = models.JSONField(default=dict, blank=True)  # of other apps, by name: drawn as the machine was stopped (steps.watermarks)

    manifest_id = models.CharField(max_length=64, blank=True)
    content_digest = models.CharField(max_length=64, blank=True)
    memory_root = models.CharField(max_length=64, blank=True)
    disk_root = models.CharField(max_length=64, blank=True)
    logical_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    written_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    unique_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    stored_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    pause_seconds = models.FloatField(null=True, blank=True)
    failure = models.JSONField(null=True, blank=True)

    created_at = models.DateTimeField(db_default=Now(), editable=False)
    published_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["session", "-created_at", "-id"], name="checkpoint_of_session"),
            models.Index(fields=["-created_at", "-id"], name="checkpoint_newest"),
            models.Index(fields=["operation_id"], name="checkpoint_of_operation"),
            # what a retention policy chooses from: what it has erased stays as rows without content
            models.Index(
                fields=["session", "-created_at", "-id"], name="checkpoint_valid", condition=models.Q(state=CheckpointState.PUBLISHED)
            ),
            # few are in any other state, and an operator looks for those
            models.Index(
                fields=["state", "-created_at"], name="checkpoint_not_valid", condition=~models.Q(state=CheckpointState.PUBLISHED)
            ),
            # which checkpoints have an image, asked by every host for each that it has assembled
            models.Index(fields=["memory_root"], name="checkpoint_memory", condition=~models.Q(memory_root="")),
            models.Index(fields=["disk_root"], name="checkpoint_disk", condition=~models.Q(disk_root="")),
            models.Index(fields=["content_digest"], name="checkpoint_content", condition=~models.Q(content_digest="")),
        ]

    def __str__(self) -> str:
        return self.id
