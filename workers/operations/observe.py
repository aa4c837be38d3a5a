"""What a host does every few seconds: tell that it is alive, settle its sessions, keep its cache within bounds."""

from django.db.models.functions import Now

from workers.cache.evict import evict
from workers.host.identity import host_id
from workers.models import Host
from workers.operations.settle import settle_host


def observe() -> None:
    Host.objects.filter(id=host_id()).update(heartbeat_at=Now())
    settle_host()
    evict()
