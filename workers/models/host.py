from django.db import models
from django.db.models.functions import Now

from checkpoints_app.models import Pin


class Host(models.Model):
    """A machine that runs microVMs. It is alive while its heartbeat, by the database's clock, is fresh."""

    id = models.CharField(primary_key=True, max_length=64)
    memory_bytes = models.PositiveBigIntegerField()
    cpus = models.PositiveSmallIntegerField()
    boot_id = models.CharField(max_length=40)
    network = models.BooleanField(default=False)  # its machines have a way to the gateway
    draining = models.BooleanField(default=False)
    registered_at = models.DateTimeField(db_default=Now(), editable=False)
    heartbeat_at = models.DateTimeField(db_default=Now())
    pins = models.ManyToManyField(Pin, through="HostPin", related_name="hosts")

    def __str__(self) -> str:
        return self.id


class HostPin(models.Model):
    """A pin that a host proved when its workers started."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE)
    pin = models.ForeignKey(Pin, on_delete=models.PROTECT)
    proved_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "pin"], name="one_host_pin")]

    def __str__(self) -> str:
        return f"{self.host_id} {self.pin_id[:12]}"
