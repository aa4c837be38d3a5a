from django.db import models
from django.db.models.functions import Now

from sessions_app.states import RecordKind


class ServiceRecord(models.Model):
    """One line of what the service did for an account: appended, never changed, kept under its own retention beyond every deletion.

    Ids stand here as values, so nothing that is deleted takes a line with it. No customer content: no names, reasons, commands, paths.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=12, choices=[(k.value, k.value) for k in RecordKind])
    type = models.CharField(max_length=60)
    account_id = models.CharField(max_length=40)
    session_id = models.CharField(max_length=32, blank=True)
    actor = models.CharField(max_length=100, blank=True)
    facts = models.JSONField(default=dict)
    recorded_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        indexes = [
            models.Index(fields=["account_id", "-id"], name="record_of_account"),
            models.Index(fields=["kind", "-id"], name="record_of_kind"),
            models.Index(fields=["session_id", "-id"], name="record_of_session", condition=~models.Q(session_id="")),
            models.Index(fields=["recorded_at"], name="record_age"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.type}"
