"""Which hosts may take a boot or a resume: alive, not draining, with the pin, with room."""

from django.db.models import Sum
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint, Pin
from checkpoints_app.states import CheckpointState
from sessions_app.errors import FleetUnavailable, NotFound, NotRestorable, StackIncompatible
from sessions_app.models import Session
from sessions_app.services.dispatch import pin_queue
from sessions_app.states import SESSION_LIVE, SessionState
from workers.host.compatibility import FRESH, hosts_for_pin
from workers.models import Host

#: Guests share pages of their images and rarely touch all their memory; what is promised may exceed what is there by this factor.
OVERCOMMIT = 1.5
_HOLDS_MEMORY = [*SESSION_LIVE, SessionState.PROVISIONING, SessionState.RESUMING]


def place_boot(*, architecture: str, image_digest: str, memory_bytes: int) -> str:
    pin = _pin_with_room(list(Pin.objects.filter(architecture=architecture).values_list("digest", flat=True)), memory_bytes)
    if pin is None:
        _require_a_host_of(architecture, "No session was started.")
        raise FleetUnavailable(
            f"No host can take an {architecture} machine of {memory_bytes >> 20} MiB now. No session was started.",
            next_action="Try again later; an operator sees the hosts in the admin and with ./keepstate doctor.",
        )
    return pin_queue(pin)


def place_resume(*, session: Session, checkpoint_id: str, copies: int = 1) -> str:
    checkpoint = Checkpoint.objects.select_related("pin").filter(id=checkpoint_id, session=session).first()
    if checkpoint is None:
        raise NotFound("The session has no such checkpoint. Nothing was started.", next_action="List them, and name one that is valid.")
    if checkpoint.state != CheckpointState.PUBLISHED:
        raise NotRestorable(
            f"The checkpoint {checkpoint.id} is {checkpoint.state}, not valid. Nothing was started.",
            next_action="Name a checkpoint that is valid.",
            facts={"checkpoint_id": checkpoint.id, "checkpoint_state": checkpoint.state},
        )
    if _pin_with_room([checkpoint.pin_id], copies * session.memory_bytes):
        return pin_queue(checkpoint.pin_id)
    _refuse(checkpoint, copies * session.memory_bytes)
    raise AssertionError("unreachable")


def _refuse(checkpoint: Checkpoint, memory_bytes: int) -> None:
    """Tell apart: no live host has the pin (and how the hosts that there are differ), or those that have it are full or draining."""
    having = Host.objects.filter(pins=checkpoint.pin_id, heartbeat_at__gt=Now() - FRESH)
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
    others = [fit for fit in hosts_for_pin(checkpoint.pin_id) if fit.state != "silent" and fit.differences]
    if others:
        differing = others[0].differences
        raise StackIncompatible(
            f"No live host has the pin this checkpoint was taken on; "
            f"the nearest of {len(others)} differs in: {', '.join(sorted(differing))}. Nothing was started.",
            next_action="Bring back a host with that pin. An operator sees each host's differences at the checkpoint in the admin.",
            facts={"pin": checkpoint.pin_id, "differences": differing, "hosts_compared": len(others)},
        )
    _require_a_host_of(checkpoint.pin.architecture, "Nothing was started.")
    raise FleetUnavailable(
        "No live host has this checkpoint's pin. Nothing was started.", next_action="Start that host's workers, then ask again."
    )


def _require_a_host_of(architecture: str, what_was_not_done: str) -> None:
    """A fleet that is full is told from one that has nobody for the architecture."""
    if not Host.objects.filter(pins__architecture=architecture, heartbeat_at__gt=Now() - FRESH).exists():
        raise FleetUnavailable(
            f"No live host runs {architecture} machines. {what_was_not_done}",
            next_action=f"Start the workers of a host that has QEMU for {architecture}; ./keepstate doctor on a host says what it lacks.",
            facts={"architecture": architecture},
        )


def _pin_with_room(digests: list[str], memory_bytes: int) -> str | None:
    """The pin, among those given, of the host with the most free memory; None if no host has room."""
    hosts = Host.objects.filter(pins__in=digests, draining=False, heartbeat_at__gt=Now() - FRESH).distinct()
    best: tuple[int, str] | None = None
    for host in hosts:
        held = Session.objects.filter(host_id=host.id, runtime_state__in=_HOLDS_MEMORY).aggregate(total=Sum("memory_bytes"))["total"] or 0
        free = int(host.memory_bytes * OVERCOMMIT) - held
        if free >= memory_bytes and (best is None or free > best[0]):
            best = (free, host.hostpin_set.filter(pin_id__in=digests).latest("proved_at").pin_id)
    return best and best[1]
