"""What was used, as it is counted: the lines of it that are kept stand in the service record."""

from django.db import models

from sessions_app.models.account import Account
from sessions_app.models.session import Session


class SessionUsage(models.Model):
    """How long a session's machines were awake, in milliseconds. No row: none of them ever was.

    `awake_since` is set while one is, `proved_at` is when it was last seen alive. `told` is as much of it as the service record has lines
    of. `partial`: the session is older than this count.
    """

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="usage")
    awake_ms = models.PositiveBigIntegerField(default=0)
    estimated_ms = models.PositiveBigIntegerField(default=0)  # of these, what ended at a moment that nobody saw
    awake_since = models.DateTimeField(null=True, blank=True)
    proved_at = models.DateTimeField(null=True, blank=True)
    partial = models.BooleanField(default=False)
    told_ms = models.PositiveBigIntegerField(default=0)
    told_estimated_ms = models.PositiveBigIntegerField(default=0)
    told_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["told_at"],
                name="usage_to_tell",
                condition=models.Q(awake_since__isnull=False) | models.Q(awake_ms__gt=models.F("told_ms")),
            )
        ]

    def __str__(self) -> str:
        return f"{self.awake_ms} ms"


class AccountUsage(models.Model):
    """Sums of an account: awake time as far as it is told, of deleted sessions too; bytes in the store, null until they were measured.

    No row: nothing was ever used. `changed_at` asks for a new measurement.
    """

    account = models.OneToOneField(Account, on_delete=models.CASCADE, primary_key=True, related_name="usage")
    awake_ms = models.PositiveBigIntegerField(default=0)
    estimated_ms = models.PositiveBigIntegerField(default=0)
    told_at = models.DateTimeField(null=True, blank=True)
    stored_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    measured_at = models.DateTimeField(null=True, blank=True)
    changed_at = models.DateTimeField(null=True, blank=True)
    stored_told_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["changed_at"], name="usage_to_measure", condition=models.Q(changed_at__isnull=False))]

    def __str__(self) -> str:
        return f"{self.stored_bytes} bytes"
