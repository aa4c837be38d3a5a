"""What an account, or one session of it, has asked to be kept of its saved points. Without a policy nothing expires."""

from django.db import models
from django.db.models.functions import Now

from sessions_app.models.account import Account
from sessions_app.models.session import Session


class RetentionPolicy(models.Model):
    """Of an account (`session` null) or of one session, which it then has instead of the account's.

    `active`: it is set; one that was taken away stays as a row, so that its revision never repeats. `enabled` false keeps everything.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="retention_policies")
    session = models.OneToOneField(Session, on_delete=models.CASCADE, null=True, blank=True, related_name="retention_policy")
    active = models.BooleanField(default=False)
    enabled = models.BooleanField(default=True)
    keep_last = models.PositiveSmallIntegerField(default=0)
    keep_hourly = models.PositiveSmallIntegerField(default=0)
    keep_daily = models.PositiveSmallIntegerField(default=0)
    keep_weekly = models.PositiveSmallIntegerField(default=0)
    keep_named = models.BooleanField(default=True)
    revision = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account"], name="one_account_retention", condition=models.Q(session__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"retention of {self.session_id or self.account_id}"


class RetentionDue(models.Model):
    """A session at whose points its policy has yet to look, because something has changed since it last did."""

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="retention_due")
    due_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="retention_due")]

    def __str__(self) -> str:
        return self.session_id
