"""The sweep: ring again for what is due, expire what no worker holds any more, ask every host to look after itself.

It is the outbox of the whole system: a doorbell that was lost is rung here. Two sweeps at once do no harm.
"""

import logging
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from sessions_app.models import Operation
from sessions_app.services import dispatch, lease, unbegun
from sessions_app.states import OperationKind, OperationState
from workers.host import liveness
from workers.models import Host, HostPin

log = logging.getLogger(__name__)

BATCH = 500
#: A queued operation this old was not heard: its doorbell is rung again.
UNHEARD = timedelta(seconds=5)
#: Hosts that are silent for so long are not rung any more; their workers register again when they start. It is long because silence may be
#: the sweeper's own fault: after hours without a broker, or of a laptop's sleep, every host is rung and found again.
FORGET = timedelta(days=30)


def run() -> None:
    sweep()
    ring_hosts()


def sweep() -> None:
    _free_deletions()
    heard = Operation.objects.filter(queue__in=_heard_queues())
    for operation in heard.filter(state=OperationState.QUEUED, due_at__lt=Now() - UNHEARD).order_by("due_at")[:BATCH]:
        dispatch.ring_again(operation)
    dead = Operation.objects.filter(state=OperationState.RUNNING, lease_expires_at__lt=Now()).order_by("lease_expires_at")
    for operation in dead.filter(attempt__lt=F("max_attempts"), queue__in=_heard_queues())[:BATCH]:
        log.warning("lease expired, ringing for another attempt", extra={"operation_id": operation.id, "attempt": operation.attempt})
        dispatch.ring_again(operation)
    for operation in dead.filter(attempt__gte=F("max_attempts"))[:BATCH]:
        _give_up(operation)


def _free_deletions() -> None:
    """A deletion that waits for a host which is silent is anybody's: content is erased at once, and the host ends what it runs when it is
    back.
    """
    waiting = Q(state=OperationState.QUEUED, due_at__lt=Now() - UNHEARD) | Q(state=OperationState.RUNNING, lease_expires_at__lt=Now())
    stuck = Operation.objects.filter(waiting, kind=OperationKind.DELETE).exclude(queue__in=_heard_queues())
    for operation_id in stuck.order_by("due_at").values_list("id", flat=True)[:BATCH]:
        Operation.objects.filter(waiting, id=operation_id).update(queue=dispatch.CONTROL_QUEUE, host_id="")


def _heard_queues() -> list[str]:
    """The queues that somebody reads. A doorbell in another would lie in the broker for ever, and the work that waits for a lost host would
    fill each batch; both are rung as soon as the host is back.
    """
    alive = liveness.alive().values_list("id", flat=True)
    pins = HostPin.objects.filter(host__in=alive).values_list("pin_id", flat=True)
    return [
        dispatch.CONTROL_QUEUE,
        *(queue(host) for host in alive for queue in (dispatch.host_queue, dispatch.io_queue)),
        *{dispatch.pin_queue(pin) for pin in pins},
    ]


def _give_up(operation: Operation) -> None:
    with transaction.atomic():
        if not lease.give_up(operation):
            return
        operation.refresh_from_db()
        unbegun.fail_session(operation, operation.error, source="sweep")
    log.error("operation given up", extra={"operation_id": operation.id, "attempt": operation.attempt})


def ring_hosts() -> None:
    for host_id in Host.objects.filter(heartbeat_at__gt=Now() - FORGET, retired_at=None).values_list("id", flat=True):
        dispatch.ring_host(host_id)
