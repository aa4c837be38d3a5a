from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import new_operation_id
from sessions_app.models.account import Account
from sessions_app.models.session import Session
from sessions_app.states import EXCLUSIVE_KINDS, OPERATION_ACTIVE, OperationKind, OperationState


class Operation(models.Model):
    """A change that was asked for: the row is the job, and the Celery message only a doorbell.

    A worker owns it by its lease token, drawn from a PostgreSQL sequence at the claim; every later write is guarded by that token.
    Times that decide anything are the database's.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_operation_id, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="operations")
    session = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="operations")
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in OperationKind])
    state = models.CharField(max_length=24, choices=[(s.value, s.value) for s in OperationState], default=OperationState.QUEUED)
    parameters = models.JSONField(default=dict)
    queue = models.CharField(max_length=100)
    # The host that is to do it, and the memory that is kept free there for its machines until it has ended (services/placement.py).
    host_id = models.CharField(max_length=64, blank=True, db_default="", default="")
    reserved_bytes = models.PositiveBigIntegerField(default=0, db_default=0)
    waits_for = models.CharField(max_length=40, blank=True, db_default="", default="")  # why it has no host yet
    waits_as = models.CharField(max_length=32, blank=True, db_default="", default="")  # the kind of what it waits for

    idempotency_key = models.CharField(max_length=100, null=True, blank=True)  # noqa: DJ001  unique, and most have none
    method = models.CharField(max_length=8, blank=True)
    path = models.CharField(max_length=300, blank=True)
    body_digest = models.CharField(max_length=64, blank=True)

    due_at = models.DateTimeField(db_default=Now())
    attempt = models.PositiveSmallIntegerField(default=0)
    max_attempts = models.PositiveSmallIntegerField(default=3)
    lease_token = models.BigIntegerField(null=True, blank=True)
    lease_owner = models.CharField(max_length=100, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)

    progress = models.JSONField(default=dict)
    http_status = models.PositiveSmallIntegerField(null=True, blank=True)
    response = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True)
    accepted_at = models.DateTimeField(db_default=Now(), editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "idempotency_key"], name="operation_idempotency"),
            models.UniqueConstraint(
                fields=["session"],
                name="one_exclusive_operation",
                condition=models.Q(state__in=sorted(OPERATION_ACTIVE), kind__in=sorted(EXCLUSIVE_KINDS)),
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="operation_due", condition=models.Q(state=OperationState.QUEUED)),
            models.Index(fields=["lease_expires_at"], name="operation_leased", condition=models.Q(state=OperationState.RUNNING)),
            models.Index(fields=["session", "-accepted_at"], name="operation_of_session"),
            models.Index(
                fields=["host_id"], name="operation_on_host", condition=models.Q(state__in=sorted(OPERATION_ACTIVE)) & ~models.Q(host_id="")
            ),
            models.Index(
                fields=["accepted_at"], name="operation_waits", condition=models.Q(state=OperationState.QUEUED) & ~models.Q(waits_for="")
            ),
            models.Index(
                fields=["waits_as", "accepted_at", "id"],
                name="operation_waits_as",
                condition=models.Q(state=OperationState.QUEUED) & ~models.Q(waits_for=""),
            ),
            models.Index(
                fields=["finished_at"],
                name="operation_resume_failed",
                condition=models.Q(kind=OperationKind.RESUME, state=OperationState.FAILED),
            ),
            models.Index(fields=["-accepted_at", "-id"], name="operation_newest"),
            models.Index(fields=["kind", "-accepted_at"], name="operation_of_kind"),
            models.Index(fields=["state", "-accepted_at"], name="operation_in_state"),
            models.Index(fields=["idempotency_key"], name="operation_key", condition=models.Q(idempotency_key__isnull=False)),
            models.Index(fields=["account", "-accepted_at", "-id"], name="operation_of_account"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
