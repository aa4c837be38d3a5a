from django.db import models
from django.db.models.functions import Now

from gateway_app.ids import new_steer_id
from sessions_app.models import Session


class Steer(models.Model):
    """A text for a session's next model call and no other. It is put into that call's body on its way, never into the guest."""

    id = models.CharField(primary_key=True, max_length=40, default=new_steer_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="steers")
    sealed_text = models.BinaryField(editable=False)
    text_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    used_at = models.DateTimeField(null=True, blank=True)
    call_id = models.CharField(max_length=40, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["session", "created_at"], name="steer_waiting", condition=models.Q(used_at__isnull=True)),
            models.Index(fields=["session", "-created_at", "-id"], name="steer_of_session"),
        ]

    def __str__(self) -> str:
        return self.id
