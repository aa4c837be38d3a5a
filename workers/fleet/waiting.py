"""Operations that no host has begun find one: what waits, in order of acceptance; what was placed on a host that drains, or that has gone
silent itself or with its vm worker; what an earlier release has asked of a pin. What has waited too long fails.

One look at all that wait is one commit, and one of all is at it at a time: a second would look at what the first has not seen.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from sessions_app.errors import FleetUnavailable
from sessions_app.models import Operation, Session
from sessions_app.services import dispatch, placement, unbegun, waiting
from sessions_app.services.database import Busy, briefly, hold, hold_if_free
from sessions_app.services.placement import Placement
from sessions_app.states import SESSION_LIVE, OperationKind, OperationState, SessionState, WaitsFor
from workers.host import liveness
from workers.host.choice import Demand, choose, why_it_waits
from workers.host.demands import demands_of
from workers.host.line import LINE, line
from workers.host.offers import Offer, offers
from workers.host.placement import LOCK
from workers.sweep import UNHEARD

log = logging.getLogger(__name__)

TURN = "waiting"
#: A turn looks for so long; the next one comes within seconds.
LOOKING_SECONDS = 2.0
#: What ends or continues a machine that is there is its host's; these begin one, or need none.
PLACED = (OperationKind.BOOT, OperationKind.RESUME, OperationKind.RESTORE, OperationKind.FORK)

#: The session of an operation that has begun a machine, which is not there yet.
_BEGUN_IN = (SessionState.PROVISIONING, SessionState.RESUMING)


def place_waiting() -> int:
    """How many operations have got a host, or have ended for want of one."""
    return _place_some() + _give_up()  # in this order: the turns themselves may have been away for long


def _place_some() -> int:
    """Look again at once where a kind's share was placed, and others of it stand behind; for so long."""
    began, placed, more = time.monotonic(), 0, True
    while more and time.monotonic() - began < LOOKING_SECONDS:
        try:
            done, more = _look()
        except Busy:
            log.info("somebody else places: the next turn looks at what waits")
            break
        placed += done
    return placed


def _give_up() -> int:
    """The session of what was begun on a host that is lost is settled by whoever takes its sessions (workers/fleet/taken.py)."""
    waited = waiting.line().filter(due_at__lt=Now() - waiting.longest())
    left = _begun().filter(lease_expires_at__lt=Now() - waiting.longest())
    return _ended(waited, unbegun.fail, "Nothing was started.") + _ended(left, unbegun.abandon, "The worker that had begun it was lost.")


def _ended(found: "QuerySet[Operation]", end: Callable[..., bool], state: str) -> int:
    """Each in a commit of its own. What somebody holds is passed over: the next turn comes within seconds."""
    ended = 0
    for operation_id in list(found.values_list("id", flat=True)[:LINE]):
        with suppress(Busy), briefly():
            ended += sum(end(one, _no_host(one, state), source="fleet") for one in _held(found.filter(id=operation_id)))
    return ended


def _no_host(operation: Operation, state: str) -> FleetUnavailable:
    waited_for = operation.waits_for or WaitsFor.NO_HOST
    return FleetUnavailable(
        f"No host took the {operation.kind} within {waiting.longest().total_seconds():.0f} s. {waiting.WHY[waited_for]} {state}",
        next_action="Ask again later, or park other sessions; an operator sees the hosts in the admin.",
        facts={"waited_for": waited_for},
    )


@briefly()
def _look() -> tuple[int, bool]:
    """How many have got a host, and whether there are others whose turn it was not.

    Rows that somebody else holds are passed over; the lock of all placements comes last, and is waited for briefly. Raises Busy.
    """
    if not hold_if_free(TURN):
        return 0, False
    unbegun_there, begun_there = _held(_unbegun()), _held(_begun())
    if not unbegun_there and not begun_there and not waiting.line().exists():
        return 0, False
    operations = sorted([*_held(line()), *unbegun_there, *begun_there], key=lambda one: (one.accepted_at, one.id))
    demands = demands_of(operations)
    hold(LOCK)
    found = offers(name for one in demands for name in (one.memory_root, one.image_digest))
    hosts = choose(demands, found)
    done = sum(_write(*row, found) for row in zip(operations, demands, hosts, strict=True))
    return done, any(host and one.more_behind for one, host in zip(demands, hosts, strict=True))


def _held(operations: "QuerySet[Operation]") -> list[Operation]:
    """With their sessions' rows."""
    return list(operations.select_related("session").select_for_update(skip_locked=True, no_key=True, of=("self", "session"))[:LINE])


def _elsewhere() -> "QuerySet[Operation]":
    """What may be done on any host: it has no machine that runs."""
    return Operation.objects.filter(kind__in=PLACED).exclude(session__runtime_state__in=SESSION_LIVE)


def _unbegun() -> "QuerySet[Operation]":
    """Placed, and not begun: its host takes no work any more, or it has none, and nobody heard its pin's doorbell. Last what a host that
    is heard of has taken on, for it does that where nobody else can, and would keep the others from being looked at.
    """
    takes_work = list(liveness.takes_work().values_list("id", flat=True))
    of_a_pin = Q(host_id="", queue__startswith="pin.", due_at__lt=Now() - UNHEARD)
    heard = liveness.alive().filter(id=OuterRef("host_id"))
    left = ~Q(host_id="") & ~Q(host_id__in=takes_work)
    return (
        _elsewhere()
        .filter(of_a_pin | left, state=OperationState.QUEUED, attempt=0)
        .annotate(taken_on=Exists(heard))
        .order_by("taken_on", "due_at")
    )


def _begun() -> "QuerySet[Operation]":
    """Whose worker was lost with its host, or without it, and which may be attempted again. On a host whose vm worker is heard of, they
    are that one's.
    """
    heard = list(liveness.begins_machines().values_list("id", flat=True))
    dead = _elsewhere().filter(state=OperationState.RUNNING, lease_expires_at__lt=Now(), attempt__lt=F("max_attempts"))
    return dead.exclude(host_id="").exclude(host_id__in=heard).order_by("lease_expires_at")


def _write(operation: Operation, demand: Demand, host_id: str, found: Sequence[Offer]) -> int:
    """Whether the operation has got a host. What was begun and finds none stays what it is; what was not stays with a host that is heard of
    and took it on before it began to drain, or lost its vm worker.
    """
    if host_id:
        _place(operation, _placement(operation, host_id, demand.memory_bytes))
        return 1
    reason = why_it_waits(demand, found)
    is_taken_on = any(one.host_id == operation.host_id for one in found)
    if operation.state == OperationState.QUEUED and not is_taken_on and reason != operation.waits_for:
        begins = {} if operation.waits_for else {"due_at": Now()}
        _update(operation, placement.waiting(reason, demand.memory_bytes, demand.kind), **begins)
    return 0


def _placement(operation: Operation, host_id: str, memory_bytes: int) -> Placement:
    """A fork whose children are made only waits for their answers."""
    answers = operation.kind == OperationKind.FORK and "children" in operation.progress
    return placement.beside(host_id) if answers else placement.on(host_id, memory_bytes)


def _place(operation: Operation, placed: Placement) -> None:
    begun = operation.state == OperationState.RUNNING
    _update(operation, placed, **({"lease_token": None, "lease_owner": "", "lease_expires_at": Now()} if begun else {"due_at": Now()}))
    if begun:  # what the lost host still does for the session is refused from here on
        begun_there = Session.objects.filter(id=operation.session_id, runtime_state__in=_BEGUN_IN)
        begun_there.update(epoch=F("epoch") + 1, host_id=placed.host_id)
    log.info("operation placed", extra={"operation_id": operation.id, "host_id": placed.host_id, "before": operation.host_id})
    operation.queue = placed.queue
    dispatch.ring(operation)


def _update(operation: Operation, placed: Placement, **changes: Any) -> None:
    Operation.objects.filter(id=operation.id, state=operation.state, lease_token=operation.lease_token).update(
        queue=placed.queue,
        host_id=placed.host_id,
        reserved_bytes=placed.reserved_bytes,
        waits_for=placed.waits_for,
        waits_as=placed.waits_as,
        **changes,
    )
