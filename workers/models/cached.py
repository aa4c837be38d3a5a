from django.db import models
from django.db.models.functions import Now

from workers.models.host import Host
from workers.states import Heat


class CachedImage(models.Model):
    """What a host said it has. Placement prefers such hosts; a row that is wrong costs time and nothing else."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE)
    root = models.CharField(max_length=64)
    heat = models.CharField(max_length=8, choices=[(heat.value, heat.value) for heat in Heat])
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["root", "host"], name="one_cached_image")]

    def __str__(self) -> str:
        return f"{self.host_id} {self.heat} {self.root[:12]}"
