from django.db import models

from sessions_app.models.account import Account


class AccountQuota(models.Model):
    """What an account may have at most; null: as much as there is. An account without a row has the installation's defaults."""

    account = models.OneToOneField(Account, on_delete=models.CASCADE, primary_key=True, related_name="quota")
    sessions = models.PositiveIntegerField(null=True, blank=True)
    running_machines = models.PositiveIntegerField(null=True, blank=True)
    stored_bytes = models.PositiveBigIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return f"quota of {self.account_id}"
