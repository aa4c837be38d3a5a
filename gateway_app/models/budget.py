"""What a session and an account may spend on model calls. Sums are kept beside the limits, so that admission is one guarded update."""

from django.db import models

from sessions_app.models import Account, Session


class SessionBudget(models.Model):
    """A limit that is null is none. `reserved_*` are of calls that are on their way."""

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="budget")
    microusd = models.BigIntegerField(null=True, blank=True)  # the limit in money; the one in tokens is the session's own
    spent_tokens = models.PositiveBigIntegerField(default=0)
    spent_microusd = models.BigIntegerField(default=0)
    unknown_calls = models.PositiveIntegerField(default=0)  # billed, perhaps; how much is not known
    billed_calls = models.PositiveIntegerField(default=0)
    replayed_calls = models.PositiveIntegerField(default=0)
    replayed_tokens = models.PositiveBigIntegerField(default=0)
    call_ticks = models.PositiveBigIntegerField(default=0)
    warned_at = models.DateTimeField(null=True, blank=True)
    exhausted_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.session_id}: {self.spent_tokens} tokens"


class AccountBudget(models.Model):
    account = models.OneToOneField(Account, on_delete=models.CASCADE, primary_key=True, related_name="budget")
    tokens = models.PositiveBigIntegerField(null=True, blank=True)
    microusd = models.BigIntegerField(null=True, blank=True)
    spent_tokens = models.PositiveBigIntegerField(default=0)
    spent_microusd = models.BigIntegerField(default=0)
    unknown_calls = models.PositiveIntegerField(default=0)
    warned_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.account_id}: {self.spent_tokens} tokens"
