from django.db import models
from django.db.models import Value
from django.db.models.functions import Now

from checkpoints_app.models import Pin


class Host(models.Model):
    """A machine that runs microVMs. It is alive while its heartbeat, by the database's clock, is fresh (workers/host/liveness.py)."""

    id = models.CharField(primary_key=True, max_length=64)
    memory_bytes = models.PositiveBigIntegerField()
    cpus = models.PositiveSmallIntegerField()
    boot_id = models.CharField(max_length=40)
    network = models.BooleanField(default=False)  # its machines have a way to the gateway
    instance = models.CharField(max_length=40, blank=True, db_default="", default="")  # which installation runs under this id
    labels = models.JSONField(default=dict, db_default=Value({}, models.JSONField()), blank=True)  # an operator's own: name -> value
    offered_bytes = models.PositiveBigIntegerField(null=True, blank=True)  # memory for machines; None: by the memory that it has
    draining = models.BooleanField(default=False)
    moving = models.BooleanField(default=False, db_default=False)  # draining: its machines are saved and resumed elsewhere
    moving_since = models.DateTimeField(null=True, blank=True)
    resting_until = models.DateTimeField(null=True, blank=True)  # its workers were stopped in order, and are expected back by then
    lost_at = models.DateTimeField(null=True, blank=True)  # its sessions were taken from it; it ends what it still runs when it is back
    retired_at = models.DateTimeField(null=True, blank=True)  # never to be heard again, unless an operator enrols it anew
    registered_at = models.DateTimeField(db_default=Now(), editable=False)
    heartbeat_at = models.DateTimeField(db_default=Now())  # by a thread of its workers, straight to the database
    vm_heard_at = models.DateTimeField(null=True, blank=True)  # by its vm worker alone; None: never, or by no release that tells
    vm_missing_at = models.DateTimeField(null=True, blank=True)  # when another worker of the host last found that one silent
    observed_at = models.DateTimeField(null=True, blank=True)  # when its workers last read a doorbell that asks it to look after itself
    disk_bytes = models.PositiveBigIntegerField(null=True, blank=True)  # of the file system of its machines and cache, when it observed
    disk_free_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    pins = models.ManyToManyField(Pin, through="HostPin", related_name="hosts")

    def __str__(self) -> str:
        return self.id


class HostRelay(models.Model):
    """Where a host's relay listens for web processes on other machines, and what it must show (workers/relay/door.py)."""

    host = models.OneToOneField(Host, on_delete=models.CASCADE, primary_key=True, related_name="relay")
    address = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    fingerprint = models.CharField(max_length=64)
    key_marks = models.JSONField(
        default=list, db_default=Value([], models.JSONField())
    )  # of the master keys it takes (workers/relay/trust.py)
    listens_since = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.host_id} {self.address}:{self.port}"


class HostPin(models.Model):
    """A pin that a host proved when its workers started."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE)
    pin = models.ForeignKey(Pin, on_delete=models.PROTECT)
    proved_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "pin"], name="one_host_pin")]

    def __str__(self) -> str:
        return f"{self.host_id} {self.pin_id[:12]}"
