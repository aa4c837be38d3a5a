from django.db import models
from django.db.models.functions import Now

from gateway_app.states import EgressMode
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
