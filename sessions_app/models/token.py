from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import new_token_id
from sessions_app.models.account import Account


class ApiToken(models.Model):
    """A bearer token of an account. Only its digest is kept; the prefix is what a person may be shown."""

    id = models.CharField(primary_key=True, max_length=40, default=new_token_id, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
