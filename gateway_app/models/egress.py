from django.db import models
from django.db.models.functions import Now

from gateway_app.states import EgressMode, EgressOutcome
from sessions_app.models import Session


class EgressPolicy(models.Model):
    """Where a session's machine may connect to beside its model provider; a session without this row may connect nowhere.

    `rules`: [{"host": name or *.name, "ports": [..]}].
    """

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="egress")
    mode = models.CharField(max_length=12, choices=[(one.value, one.value) for one in EgressMode], default=EgressMode.DENY)
    rules = models.JSONField(default=list)
    revision = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.mode


class EgressSum(models.Model):
    """What a session's machine has connected to in all. A gateway that is killed loses what it counted in its last seconds."""

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="egress_sum")
    connections = models.PositiveBigIntegerField(default=0)
    refusals = models.PositiveBigIntegerField(default=0)
    sent_bytes = models.PositiveBigIntegerField(default=0)
    received_bytes = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.session_id}: {self.connections} connections"


class EgressLine(models.Model):
    """A host that a session's machine asked for, and what became of it; the newest are kept. Host is empty: none was named, or too many."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="egress_lines")
    host = models.CharField(max_length=253, blank=True)
    port = models.PositiveIntegerField()
    outcome = models.CharField(max_length=12, choices=[(one.value, one.value) for one in EgressOutcome])
    connections = models.PositiveBigIntegerField(default=0)
    sent_bytes = models.PositiveBigIntegerField(default=0)
    received_bytes = models.PositiveBigIntegerField(default=0)
    last_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "host", "port", "outcome"], name="egress_line_once")]

    def __str__(self) -> str:
        return f"{self.host}:{self.port} {self.outcome}"
