from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import new_webhook_id
from sessions_app.models.account import Account
from sessions_app.states import DeliveryState


class WebhookEndpoint(models.Model):
    """Where an account wants to be told of events. Its secret is sealed under the account's key and shown once, when it is drawn."""

    id = models.CharField(primary_key=True, max_length=40, default=new_webhook_id, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=500)
    types = models.JSONField(default=list)  # which events; none named: all
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=200, blank=True)
    secret = models.BinaryField(editable=False)
    previous_secret = models.BinaryField(editable=False, default=bytes)
    previous_secret_until = models.DateTimeField(null=True, blank=True, editable=False)
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    last_success_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        indexes = [models.Index(fields=["account", "-created_at", "-id"], name="webhook_of_account")]

    def __str__(self) -> str:
        return self.url


class WebhookDelivery(models.Model):
    """One message for one endpoint: written in the transaction of its event, sent until it is taken or given up.

    `body` is the exact text that is signed. It holds ids and numbers of an event, no content.
    """

    id = models.CharField(primary_key=True, max_length=40, editable=False)
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries")
    event_type = models.CharField(max_length=60)
    session_id = models.CharField(max_length=32, blank=True)
    body = models.TextField()
    state = models.CharField(max_length=12, choices=[(s.value, s.value) for s in DeliveryState], default=DeliveryState.PENDING)
    attempt = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(db_default=Now(), null=True, blank=True)
    last_status = models.PositiveSmallIntegerField(null=True, blank=True)
    last_error = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], name="delivery_due", condition=models.Q(state=DeliveryState.PENDING)),
            models.Index(fields=["endpoint", "-created_at", "-id"], name="delivery_of_endpoint"),
            models.Index(fields=["-created_at", "-id"], name="delivery_newest"),
            models.Index(fields=["ended_at"], name="delivery_age", condition=models.Q(ended_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.id}"
