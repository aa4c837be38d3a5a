from django.db import models
from django.db.models.functions import Now

from gateway_app.ids import new_key_id
from gateway_app.states import Provider
from sessions_app.models import Account


class ProviderKey(models.Model):
    """A provider's key of an account: written once, sealed under the account's key, shown as its last four characters."""

    id = models.CharField(primary_key=True, max_length=40, default=new_key_id, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="provider_keys")
    provider = models.CharField(max_length=20, choices=[(one.value, one.value) for one in Provider])
    alias = models.CharField(max_length=48, blank=True)
    last4 = models.CharField(max_length=4)
    secret = models.BinaryField(editable=False)
    enabled = models.BooleanField(default=True)
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        indexes = [
            models.Index(fields=["account", "-created_at", "-id"], name="provider_key_of_account"),
            models.Index(fields=["-created_at", "-id"], name="provider_key_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.provider} …{self.last4}"
