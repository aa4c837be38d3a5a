from django.db import models
from django.db.models.functions import Now

from sessions_app.models.account import Account


class RecordedRequest(models.Model):
    """A mutation whose effect is no operation, under its Idempotency-Key, with the answer that it got: a repeated one gets it again.

    Written in the transaction of the effect, so that neither exists without the other. `session_id` is a value: what was answered about a
    session goes with its content.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="requests")
    key = models.CharField(max_length=100)
    method = models.CharField(max_length=8)
    path = models.CharField(max_length=300)
    body_digest = models.CharField(max_length=64)
    session_id = models.CharField(max_length=32, blank=True)
    status = models.PositiveSmallIntegerField(default=200)
    answer = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "key"], name="request_idempotency")]
        indexes = [
            models.Index(fields=["created_at"], name="request_age"),
            models.Index(fields=["session_id"], name="request_of_session", condition=~models.Q(session_id="")),
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"
