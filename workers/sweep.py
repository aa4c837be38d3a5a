"""The sweep: ring again for what is due, expire what no worker holds any more, ask every host to look after itself.

It is the outbox of the whole system: a doorbell that was lost is rung here. Two sweeps at once do no harm.
"""

import logging
from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Now

from sessions_app.models import Operation
from sessions_app.services import dispatch, lease
from sessions_app.states import OperationState
from workers.host.placement import FRESH
from workers.models import Host

log = logging.getLogger(__name__)

BATCH = 500
#: A queued operation this old was not heard: its doorbell is rung again.
UNHEARD = timedelta(seconds=5)
#: Hosts that are silent for long are not rung any more; their workers register again when they start.
FORGET = FRESH * 10


def sweep() -> None:
    for operation in Operation.objects.filter(state=OperationState.QUEUED, due_at__lt=Now() - UNHEARD).order_by("due_at")[:BATCH]:
        dispatch.ring(operation)
    dead = Operation.objects.filter(state=OperationState.RUNNING, lease_expires_at__lt=Now()).order_by("lease_expires_at")
    for operation in dead.filter(attempt__lt=F("max_attempts"))[:BATCH]:
        log.warning("lease expired, ringing for another attempt", extra={"operation_id": operation.id, "attempt": operation.attempt})
        dispatch.ring(operation)
    for operation in dead.filter(attempt__gte=F("max_attempts"))[:BATCH]:
        if lease.give_up(operation):
            log.error("operation given up", extra={"operation_id": operation.id, "attempt": operation.attempt})


def ring_hosts() -> None:
    for host_id in Host.objects.filter(heartbeat_at__gt=Now() - FORGET).values_list("id", flat=True):
        dispatch.ring_host(host_id)
