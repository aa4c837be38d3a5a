from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from sessions_app.models.account import Account
from sessions_app.states import DeviceGrantState


class DeviceGrant(models.Model):
    """A sign-in that a terminal has begun: a secret code that the terminal polls with, and a short one that a person reads and decides on.

    Both are kept as digests alone, the short one under the service's key: its few characters could be tried out by whoever has the table.
    """

    device_digest = models.CharField(max_length=64, unique=True)
    user_digest = models.CharField(max_length=64, unique=True)
    state = models.CharField(max_length=12, default=DeviceGrantState.PENDING, choices=[(s.value, s.value) for s in DeviceGrantState])
    requested_scopes = models.JSONField(default=list)
    #: What the terminal says of itself, and where it asked from: shown to whoever decides. Neither is proof of anything.
    client = models.CharField(max_length=200, blank=True)
    address = models.CharField(max_length=45, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    polled_at = models.DateTimeField(null=True, blank=True)
    #: Of the approval: who, for which account, with which scopes.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", null=True, blank=True)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", null=True, blank=True)
    scopes = models.JSONField(default=list)
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["expires_at"], name="device_grant_expiry"),
            models.Index(fields=["address", "expires_at"], name="device_grant_of_address"),
        ]

    def __str__(self) -> str:
        return f"{self.state} sign-in of {self.client or 'a terminal'}"
