"""Every pin of the fleet: who holds it, who held it, and what was saved under it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count

from checkpoints_app.models import Checkpoint, Pin
from checkpoints_app.states import CheckpointState
from workers.host.state import HEARD, with_state
from workers.models import FormerPin, HostPin


@dataclass(frozen=True)
class PinHeld:
    """`hosts`: state by id. `former`: hosts that proved it once, and until when. Counts are of valid checkpoints."""

    digest: str
    architecture: str
    hosts: Mapping[str, str]
    former: Mapping[str, datetime]
    checkpoints: int
    sessions: int

    @property
    def is_held(self) -> bool:
        """By a host that is heard of."""
        return any(state in HEARD for state in self.hosts.values())

    def as_dict(self) -> dict[str, Any]:
        former = {host: at.isoformat() for host, at in self.former.items()}
        counts = {"checkpoints": self.checkpoints, "sessions": self.sessions, "held": self.is_held}
        return {"pin": self.digest, "architecture": self.architecture, "hosts": dict(self.hosts), "former": former, **counts}


def held() -> list[PinHeld]:
    """The newest first. Four queries; the count of checkpoints reads as many rows as there are valid ones."""
    states = dict(with_state().values_list("id", "state"))
    hosts: dict[str, dict[str, str]] = {}
    for pin, host in HostPin.objects.values_list("pin_id", "host_id"):
        hosts.setdefault(pin, {})[host] = states.get(host, "")
    former: dict[str, dict[str, datetime]] = {}
    for pin, host, at in FormerPin.objects.values_list("pin_id", "host_id", "lost_at"):
        former.setdefault(pin, {})[host] = at
    published = Checkpoint.objects.filter(state=CheckpointState.PUBLISHED).order_by()
    counted = published.values_list("pin_id").annotate(saves=Count("id"), of=Count("session", distinct=True))
    needed = {pin: (saves, sessions) for pin, saves, sessions in counted}
    return [
        PinHeld(pin.digest, pin.architecture, hosts.get(pin.digest, {}), former.get(pin.digest, {}), *needed.get(pin.digest, (0, 0)))
        for pin in Pin.objects.order_by("-first_seen_at", "digest")
    ]
