"""What a session's owner has asked to be done by itself: saves at an interval, parking when the session is idle, a resume after a loss."""

from django.db import models
from django.db.models.functions import Now

from sessions_app.models.session import Session
from sessions_app.services import bounds


class SavePolicy(models.Model):
    """Automatic saves of one session; a session without this row has none. `due_at` is null while there is nothing to save."""

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="save_policy")
    enabled = models.BooleanField(default=False)
    interval_minutes = models.PositiveSmallIntegerField(default=bounds.DEFAULT_SAVE_MINUTES)
    due_at = models.DateTimeField(null=True, blank=True)
    pending_since = models.DateTimeField(null=True, blank=True)
    deferred_reason = models.CharField(max_length=200, blank=True)
    last_attempt_at = models.DateTimeField(null=True, blank=True)
    last_operation_id = models.CharField(max_length=40, blank=True)

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="save_policy_due", condition=models.Q(due_at__isnull=False))]

    def __str__(self) -> str:
        return f"every {self.interval_minutes} minutes" if self.enabled else "off"


class IdlePolicy(models.Model):
    """Parking of one session when nothing is done in it; a session without this row is never parked by itself.

    `active_at` is when it was last seen to be used, `look_at` when it must be looked at next (null while it does not run).
    """

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="idle_policy")
    enabled = models.BooleanField(default=False)
    idle_minutes = models.PositiveSmallIntegerField(default=bounds.DEFAULT_IDLE_MINUTES)
    warning_seconds = models.PositiveSmallIntegerField(default=bounds.DEFAULT_WARNING_SECONDS)
    active_at = models.DateTimeField(db_default=Now())
    warned_at = models.DateTimeField(null=True, blank=True)
    look_at = models.DateTimeField(null=True, blank=True)
    deferred_reason = models.CharField(max_length=200, blank=True)

    class Meta:
        indexes = [models.Index(fields=["look_at"], name="idle_policy_due", condition=models.Q(look_at__isnull=False))]

    def __str__(self) -> str:
        return f"after {self.idle_minutes} minutes" if self.enabled else "off"


class RecoveryPolicy(models.Model):
    """What becomes of one session when its machine is lost; a session without this row has the defaults."""

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="recovery_policy")
    on_host_loss = models.BooleanField(default=True)
    on_machine_loss = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"host {self.on_host_loss}, machine {self.on_machine_loss}"
