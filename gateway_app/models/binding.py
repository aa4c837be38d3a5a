from django.db import models
from django.db.models.functions import Now

from gateway_app.models.provider_key import ProviderKey
from gateway_app.states import Provider
from sessions_app.models import Session


class KeyBinding(models.Model):
    """The one key that a session's calls to a provider go out with: that key, or none."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="key_bindings")
    provider = models.CharField(max_length=20, choices=[(one.value, one.value) for one in Provider])
    key = models.ForeignKey(ProviderKey, on_delete=models.CASCADE, related_name="bindings")
    bound_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "provider"], name="one_key_per_provider")]

    def __str__(self) -> str:
        return f"{self.session_id} {self.provider}"
