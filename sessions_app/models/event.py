from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import new_event_id
from sessions_app.models.session import Session

#: A restore's own line in the history; the lines that it left are found by these.
RESTORED = "session.restored"


class SessionEvent(models.Model):
    """One line of a session's history: appended, never changed; numbered from 1 without gaps; stamped with the epoch it happened in.

    The database refuses to change a line, and to delete one of a session that is not being deleted (migrations/*_history_rules.py).
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_event_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="events")
    number = models.PositiveBigIntegerField()
    epoch = models.PositiveIntegerField()
    type = models.CharField(max_length=60)
    source = models.CharField(max_length=60)
    subject_type = models.CharField(max_length=30, default="session")
    subject_id = models.CharField(max_length=64)
    payload = models.JSONField(default=dict)
    observed_at = models.DateTimeField(db_default=Now())
    recorded_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="event_number")]
        indexes = [models.Index(fields=["session", "number"], name="event_restores", condition=models.Q(type=RESTORED))]
        ordering = ["session", "number"]

    def __str__(self) -> str:
        return f"{self.number} {self.type}"
