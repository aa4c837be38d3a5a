from django.db import models
from django.db.models.functions import Now

from sessions_app.models.account import Account
from sessions_app.models.session import Session
from sessions_app.states import PlanKind


class Plan(models.Model):
    """A consequential act shown before it is done: it changes nothing, and only its digest consents to it, until it expires.

    `content` is what was shown, `basis` what it was true of (revisions, digests): an execution compares both with what is true then.
    """

    id = models.CharField(primary_key=True, max_length=40, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="plans")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="plans", null=True, blank=True)
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in PlanKind])
    content = models.JSONField()
    basis = models.JSONField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    executed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["expires_at"], name="plan_expiry")]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
