"""Who holds a pin, and who held it: where what was saved under it can resume, or could if that host came back as it was."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from checkpoints_app.models import Checkpoint, Pin
from checkpoints_app.states import CheckpointState
from sessions_app.services.steps import PinHolder
from workers.host import liveness
from workers.host.state import HEARD, HostState, with_state
from workers.models import FormerPin, Host, HostPin

#: The state of a host that proved the pin once, and proves another one now.
PROVES_ANOTHER = "proves_another"
#: So many checkpoints are counted at most: the figure is to alarm, and a scrape must not read a million rows.
COUNTED = 100_000
#: Since when a host is in a state, by the column that says it. Of the others it is not known.
_SINCE = {
    HostState.SILENT: "heartbeat_at",
    HostState.RESTING: "heartbeat_at",
    HostState.VM_SILENT: "vm_heard_at",
    HostState.LOST: "lost_at",
    HostState.RETIRED: "retired_at",
    HostState.MOVING: "moving_since",
}


def holders(pin_digest: str) -> list[PinHolder]:
    """Hosts that hold it, those that are heard of first; then those that held it, the newest first."""
    hosts = [PinHolder(host.id, host.state, _since(host)) for host in with_state(Host.objects.filter(pins=pin_digest)).order_by("id")]
    former = FormerPin.objects.filter(pin=pin_digest).order_by("-lost_at", "host_id")
    gone = dict(with_state(Host.objects.filter(id__in=former.values("host_id"))).values_list("id", "state"))
    left = [PinHolder(row.host_id, _state_of_former(gone.get(row.host_id)), row.lost_at) for row in former]
    return [*sorted(hosts, key=lambda one: one.state not in HEARD), *left]


def _since(host: Any) -> datetime | None:
    """`host` with its `state`."""
    column = _SINCE.get(host.state)
    return getattr(host, column) if column else None


def _state_of_former(state: str | None) -> str:
    return PROVES_ANOTHER if state in HEARD else state or HostState.RETIRED


@dataclass(frozen=True)
class Refusal:
    """What a refusal tells of a pin that no live host holds. For customers: hosts have no names here."""

    words: str
    facts: dict[str, Any]


def refusal(pin_digest: str) -> Refusal:
    found = holders(pin_digest)
    listed = [{"state": one.state, "since": one.since.astimezone(UTC).isoformat() if one.since else None} for one in found]
    return Refusal(_words(found), {"pin": pin_digest, "hosts_of_pin": listed})


def _words(found: Sequence[PinHolder]) -> str:
    if not found:
        return "No host of this fleet is known to have had it."
    one = found[0]
    more = f", and {len(found) - 1} more had it" if len(found) > 1 else ""
    state = "proves another pin" if one.state == PROVES_ANOTHER else f"is {one.state}"
    since = f" since {one.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if one.since else ""
    return f"A host that had it {state}{since}{more}."


def unheld() -> int:
    """Valid checkpoints whose pin no live host holds: they resume nowhere now. At most COUNTED of them are counted."""
    held = HostPin.objects.filter(liveness.is_fresh("host__")).values("pin_id")
    lost = list(Pin.objects.exclude(digest__in=held).values_list("digest", flat=True))
    return Checkpoint.objects.filter(pin__in=lost, state=CheckpointState.PUBLISHED)[:COUNTED].count()
