"""What a session and an account may spend on model calls. Sums are kept beside the limits, so that admission is one guarded update."""

from django.db import models

from sessions_app.models import Account, Session


class SessionBudget(models.Model):
    """A limit that is null is none. `told_*` is as much of it as the service record has lines of. Figures alone: it outlives its session.

    `warned_at` and `exhausted_at` are emptied when a limit is changed. `exhausted_epoch`: in which the machine was saved and parked for it.
    """

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="budget")
    microusd = models.BigIntegerField(null=True, blank=True)  # the limit in money; the one in tokens is the session's own
    spent_tokens = models.PositiveBigIntegerField(default=0)
    spent_microusd = models.BigIntegerField(default=0)
    unknown_calls = models.PositiveIntegerField(default=0)  # billed, perhaps; how much is not known
    unpriced_calls = models.PositiveIntegerField(default=0)  # what they cost is not known: `spent_microusd` is without them
    billed_calls = models.PositiveIntegerField(default=0)
    replayed_calls = models.PositiveIntegerField(default=0)
    replayed_tokens = models.PositiveBigIntegerField(default=0)
    told_tokens = models.PositiveBigIntegerField(default=0)
    told_microusd = models.BigIntegerField(default=0)
    told_unknown_calls = models.PositiveIntegerField(default=0)
    told_unpriced_calls = models.PositiveIntegerField(default=0)
    warned_at = models.DateTimeField(null=True, blank=True)
    exhausted_at = models.DateTimeField(null=True, blank=True)
    exhausted_epoch = models.PositiveIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.session_id}: {self.spent_tokens} tokens"


class AccountBudget(models.Model):
    """What an account has spent on model calls, deleted sessions included, and its limits over all of it. No row: nothing was spent."""

    account = models.OneToOneField(Account, on_delete=models.CASCADE, primary_key=True, related_name="budget")
    tokens = models.PositiveBigIntegerField(null=True, blank=True)
    microusd = models.BigIntegerField(null=True, blank=True)
    spent_tokens = models.PositiveBigIntegerField(default=0)
    spent_microusd = models.BigIntegerField(default=0)
    unknown_calls = models.PositiveIntegerField(default=0)
    unpriced_calls = models.PositiveIntegerField(default=0)
    billed_calls = models.PositiveIntegerField(default=0)
    revision = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.account_id}: {self.spent_tokens} tokens"
