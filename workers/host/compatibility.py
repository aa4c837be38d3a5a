"""Which hosts can resume what was saved under a pin, and of each other one why not."""

from typing import Any

from django.db.models import Prefetch

from checkpoints_app.models import Pin
from checkpoints_app.services import pin as pins
from sessions_app.services.steps import HostFit
from workers.host import liveness
from workers.host.state import with_state
from workers.models import Host, HostPin


def host_answers(host_id: str) -> bool:
    """Whether the host was heard of lately: it will hear a doorbell soon."""
    return liveness.alive().filter(id=host_id).exists()


def hosts_for_pin(pin_digest: str) -> list[HostFit]:
    """Every registered host, those that fit first, then by how little they differ. Raises Pin.DoesNotExist."""
    wanted = Pin.objects.get(digest=pin_digest)
    proved = Prefetch("hostpin_set", HostPin.objects.select_related("pin"), to_attr="proved")
    fits = [_fit(wanted, host) for host in with_state(Host.objects.filter(retired_at=None)).prefetch_related(proved)]
    return sorted(fits, key=lambda fit: (not fit.takes_it, fit.state != "alive", not fit.same_architecture, len(fit.differences), fit.host))


def _fit(wanted: Pin, host: Any) -> HostFit:
    """`host` with its `state`, and with `proved` by the prefetch."""
    proved: list[Pin] = [row.pin for row in host.proved]
    of_its_kind = [pin for pin in proved if pin.architecture == wanted.architecture]
    differing = [pins.differences(wanted.facts, pin.facts) for pin in of_its_kind]
    return HostFit(
        host=host.id,
        state=host.state,
        same_pin=any(pin.digest == wanted.digest for pin in proved),
        same_architecture=bool(of_its_kind),
        differences=min(differing, key=len, default={}),
    )
