from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import RECORD_PREFIX, SHORT_ID_LENGTH, new_session_id
from sessions_app.models.account import Account
from sessions_app.states import SessionState

_AWAKE = [SessionState.RUNNING, SessionState.CHECKPOINTING, SessionState.STOPPING, SessionState.RESUMING]


class Session(models.Model):
    """A machine's life.

    What stands on this app is named here by value, not by foreign key: the image and pin by digest, the host and the
    head checkpoint by id. The state changes only through `services.session.move`; `epoch` grows with every boot and resume,
    `revision` with every change that a reader can see.
    """

    id = models.CharField(primary_key=True, max_length=32, default=new_session_id, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="sessions")
    name = models.CharField(max_length=48, blank=True)
    runtime_state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in SessionState], default=SessionState.PROVISIONING)
    epoch = models.PositiveIntegerField(default=0)
    revision = models.PositiveIntegerField(default=1)

    image_name = models.CharField(max_length=100)
    image_digest = models.CharField(max_length=64)
    architecture = models.CharField(max_length=16)
    memory_bytes = models.PositiveBigIntegerField()
    cpus = models.PositiveSmallIntegerField(default=1)
    budget_tokens = models.PositiveBigIntegerField()

    host_id = models.CharField(max_length=64, blank=True)
    pin_digest = models.CharField(max_length=64, blank=True)
    machine_boot = models.CharField(max_length=40, blank=True, db_default="", default="")  # of its host's computer, as that epoch began:
    machine_boot_epoch = models.PositiveIntegerField(null=True, blank=True)  # not `epoch` where a release before wrote no boot
    parent_id = models.CharField(max_length=32, blank=True)
    fork_checkpoint_id = models.CharField(max_length=40, blank=True)  # of its parent
    fork_watermark = models.PositiveBigIntegerField(null=True, blank=True)  # its parent's last event that is also its own
    head_checkpoint_id = models.CharField(max_length=40, blank=True)
    head_checkpoint_at = models.DateTimeField(null=True, blank=True)
    park_reason = models.CharField(max_length=40, blank=True)
    verifying = models.BooleanField(default=False)  # its machine began before all that it was saved with had been verified
    failure = models.JSONField(null=True, blank=True)

    event_count = models.PositiveBigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    last_activity_at = models.DateTimeField(db_default=Now(), editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        indexes = [
            models.Index(fields=["account", "-last_activity_at", "-id"], name="session_account_activity"),
            models.Index(
                fields=["account", "-last_activity_at", "-id"], name="session_list", condition=~models.Q(runtime_state=SessionState.DELETED)
            ),
            models.Index(fields=["parent_id"], name="session_children", condition=~models.Q(parent_id="")),
            models.Index(fields=["account"], name="session_awake", condition=models.Q(runtime_state__in=_AWAKE)),  # what a quota counts
            models.Index(fields=["host_id"], name="session_live_host", condition=~models.Q(host_id="")),
            models.Index(fields=["-last_activity_at", "-id"], name="session_newest"),
            models.Index(fields=["runtime_state", "-last_activity_at"], name="session_in_state"),
            models.Index(fields=["name"], name="session_name_begins", opclasses=["varchar_pattern_ops"]),
        ]

    def __str__(self) -> str:
        return self.name or self.short_id

    @property
    def short_id(self) -> str:
        return self.id[:SHORT_ID_LENGTH]

    @property
    def record_id(self) -> str:
        return RECORD_PREFIX + self.id
