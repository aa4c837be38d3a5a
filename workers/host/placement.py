"""Where a boot or a resume is done: the rules of workers/host/choice.py over what the database says now.

Whoever asks stands at the end of the line of what waits: what is in front of it takes its room first.
"""

from collections.abc import Callable

from checkpoints_app.models import Checkpoint
from checkpoints_app.states import CheckpointState
from sessions_app.errors import FleetUnavailable, NotFound, NotRestorable, StackIncompatible
from sessions_app.models import Session
from sessions_app.services import placement
from sessions_app.services.database import hold
from sessions_app.services.placement import Placement
from sessions_app.states import WaitsFor
from workers.host import liveness
from workers.host.choice import Demand, choose, is_too_large, suitable, why_it_waits
from workers.host.compatibility import hosts_for_pin
from workers.host.demands import demand_of_checkpoint, demands_of
from workers.host.holders import refusal
from workers.host.line import line
from workers.host.offers import offers
from workers.host.state import HEARD
from workers.models import HostPin

#: Taken last in a transaction: whoever holds it waits for nobody.
LOCK = "placement"


def place_boot(*, architecture: str, image_digest: str, memory_bytes: int) -> Placement:
    return _place(Demand(architecture, image_digest, memory_bytes), lambda: _require_a_host_of(architecture, "No session was started."))


def place_resume(
    *, session: Session, checkpoint_id: str, with_machine: bool = True, host_id: str = "", avoid: str = "", patient: bool = False
) -> Placement:
    checkpoint = Checkpoint.objects.select_related("pin").filter(id=checkpoint_id, session=session).first()
    if checkpoint is None:
        raise NotFound("The session has no such checkpoint. Nothing was started.", next_action="List them, and name one that is valid.")
    if checkpoint.state != CheckpointState.PUBLISHED:
        raise NotRestorable(
            f"The checkpoint {checkpoint.id} is {checkpoint.state}, not valid. Nothing was started.",
            next_action="Name a checkpoint that is valid.",
            facts={"checkpoint_id": checkpoint.id, "checkpoint_state": checkpoint.state},
        )
    demand = demand_of_checkpoint(session, checkpoint, with_machine=with_machine, host_id=host_id, avoid=avoid)
    if patient and _is_expected(demand):
        return _place(demand, None)
    return _place(demand, lambda: _refuse(checkpoint, host_id))


def _place(demand: Demand, refuse: Callable[[], None] | None) -> Placement:
    """`refuse` raises why no live host suits. None: then it waits for one, and for one that is large enough."""
    hold(LOCK)  # two requests must not find the same room
    demands = [*demands_of(list(line())), demand]
    found = offers(name for one in demands for name in (one.memory_root, one.image_digest))
    if not suitable(demand, found):
        if refuse is not None:
            refuse()
        return placement.waiting(WaitsFor.NO_HOST, demand.memory_bytes, demand.kind)
    if refuse is not None and is_too_large(demand, found):
        raise FleetUnavailable(
            f"No live host offers {demand.memory_bytes >> 20} MiB to its machines. Nothing was started.",
            next_action="Ask for a smaller machine, or the operator for a larger host.",
            facts={"memory_bytes": demand.memory_bytes, "largest_offer_bytes": max(one.offered_bytes for one in suitable(demand, found))},
        )
    host = choose(demands, found)[-1]
    if host:
        return placement.on(host, demand.memory_bytes)
    return placement.waiting(why_it_waits(demand, found), demand.memory_bytes, demand.kind)


def _is_expected(demand: Demand) -> bool:
    """Whether a host that could do it is silent, and not gone for good."""
    of_pin = HostPin.objects.filter(pin=demand.pin, host__retired_at=None)
    return of_pin.filter(**({"host": demand.host_id} if demand.host_id else {})).exists()


def _refuse(checkpoint: Checkpoint, host_id: str) -> None:
    """No live host has the pin: how do the hosts that there are differ?"""
    if host_id:
        raise FleetUnavailable(
            "The host that it was to go on at is not heard of, or has not proved this checkpoint's pin. Nothing was started.",
            next_action="Resume it on any host; or the operator starts that one's workers.",
        )
    others = [fit for fit in hosts_for_pin(checkpoint.pin_id) if fit.state in HEARD and fit.differences]
    if others:
        differing, of_pin = others[0].differences, refusal(checkpoint.pin_id)
        raise StackIncompatible(
            f"No live host has the pin this checkpoint was taken on; "
            f"the nearest of {len(others)} differs in: {', '.join(sorted(differing))}. {of_pin.words} Nothing was started.",
            next_action="Bring back a host with that pin. An operator sees each host's differences at the checkpoint in the admin.",
            facts={**of_pin.facts, "differences": differing, "hosts_compared": len(others)},
        )
    _require_a_host_of(checkpoint.pin.architecture, "Nothing was started.")
    of_pin = refusal(checkpoint.pin_id)
    raise FleetUnavailable(
        f"No live host has this checkpoint's pin. {of_pin.words} Nothing was started.",
        next_action="Start that host's workers, then ask again.",
        facts=of_pin.facts,
    )


def _require_a_host_of(architecture: str, what_was_not_done: str) -> None:
    """A fleet that is full is told from one that has nobody for the architecture."""
    if not liveness.alive().filter(pins__architecture=architecture).exists():
        raise FleetUnavailable(
            f"No live host runs {architecture} machines. {what_was_not_done}",
            next_action=f"Start the workers of a host that has QEMU for {architecture}; ./keepstate doctor on a host says what it lacks.",
            facts={"architecture": architecture},
        )
