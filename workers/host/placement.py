"""Which hosts may take a boot or a resume: alive, not draining, with the pin, with room."""

from checkpoints_app.models import Checkpoint, Pin
from checkpoints_app.states import CheckpointState
from sessions_app.errors import FleetUnavailable, NotFound, NotRestorable, StackIncompatible
from sessions_app.models import Session
from sessions_app.services import placement
from sessions_app.services.database import hold
from sessions_app.services.placement import Placement
from workers.host import liveness
from workers.host.compatibility import hosts_for_pin
from workers.host.holders import refusal
from workers.host.room import room
from workers.host.state import HEARD

#: Taken last in a transaction: whoever holds it waits for nobody.
LOCK = "placement"


def place_boot(*, architecture: str, image_digest: str, memory_bytes: int) -> Placement:
    placed = _place(list(Pin.objects.filter(architecture=architecture).values_list("digest", flat=True)), memory_bytes)
    if placed is None:
        _require_a_host_of(architecture, "No session was started.")
        raise FleetUnavailable(
            f"No host can take an {architecture} machine of {memory_bytes >> 20} MiB now. No session was started.",
            next_action="Try again later; an operator sees the hosts in the admin and with ./keepstate doctor.",
        )
    return placed


def place_resume(*, session: Session, checkpoint_id: str, copies: int = 1, host_id: str = "") -> Placement:
    checkpoint = Checkpoint.objects.select_related("pin").filter(id=checkpoint_id, session=session).first()
    if checkpoint is None:
        raise NotFound("The session has no such checkpoint. Nothing was started.", next_action="List them, and name one that is valid.")
    if checkpoint.state != CheckpointState.PUBLISHED:
        raise NotRestorable(
            f"The checkpoint {checkpoint.id} is {checkpoint.state}, not valid. Nothing was started.",
            next_action="Name a checkpoint that is valid.",
            facts={"checkpoint_id": checkpoint.id, "checkpoint_state": checkpoint.state},
        )
    placed = _place([checkpoint.pin_id], copies * session.memory_bytes, host_id=host_id)
    if placed is not None:
        return placed
    _refuse(checkpoint, copies * session.memory_bytes)
    raise AssertionError("unreachable")


def _refuse(checkpoint: Checkpoint, memory_bytes: int) -> None:
    """Tell apart: no live host has the pin (and how the hosts that there are differ), or those that have it are full or draining."""
    having = liveness.alive().filter(pins=checkpoint.pin_id)
    if having.filter(draining=False).exists():
        raise FleetUnavailable(
            f"Every host with this checkpoint's pin is full: none has room for {memory_bytes >> 20} MiB more. Nothing was started.",
            next_action="Park another session, or wait.",
        )
    if having.exists():
        raise FleetUnavailable(
            "Every live host with this checkpoint's pin is draining: it takes no new work. Nothing was started.",
            next_action="Ask again once an operator has ended the draining or brought another host with that pin.",
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


def _place(digests: list[str], memory_bytes: int, *, host_id: str = "") -> Placement | None:
    """On the host with the most free memory among those with one of the pins; None if no host has room."""
    hold(LOCK)  # two requests must not find the same room
    hosts = liveness.takes_work().filter(pins__in=digests, **({"id": host_id} if host_id else {})).distinct()
    free, best = max(((host_room, host) for host, host_room in room(hosts).items()), default=(0, ""))
    return placement.on(best, memory_bytes) if best and free >= memory_bytes else None
