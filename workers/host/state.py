"""What a host is now, in one word, by the database's clock: the admin, the command, the dashboard and the metrics ask here alone."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db.models import Case, CharField, Count, Expression, F, Q, QuerySet, Value, When
from django.db.models.functions import Now

from workers.host.liveness import is_fresh, silent_after, vm_is_silent
from workers.models import Host


class HostState(StrEnum):
    ALIVE = "alive"
    DRAINING = "draining"  # takes no new work; its machines run on
    MOVING = "moving"  # draining, and its machines are saved and resumed elsewhere
    VM_SILENT = "vm_silent"  # heard of, but not its vm worker: takes no new work; its machines run on
    DEAF = "deaf"  # heard of, but its workers read no doorbell: the broker, or what is between
    SILENT = "silent"  # not heard of: takes no new work
    RESTING = "resting"  # its workers were stopped in order, and are expected back
    ENROLLED = "enrolled"  # its workers have never started
    LOST = "lost"  # its sessions were taken from it
    RETIRED = "retired"


#: In these the host tells that it is alive.
HEARD = frozenset({HostState.ALIVE, HostState.DRAINING, HostState.MOVING, HostState.VM_SILENT, HostState.DEAF})

MEANS: Mapping[HostState, str] = {
    HostState.ALIVE: "takes work",
    HostState.DRAINING: "takes no new work; its machines run on",
    HostState.MOVING: "takes no new work; its machines are saved and resumed elsewhere",
    HostState.VM_SILENT: "takes no new work; its machines run on, and saves of them wait",
    HostState.DEAF: "heard of, but its workers read no doorbell: look at Redis, and at its io worker",
    HostState.SILENT: "not heard of: takes no new work",
    HostState.RESTING: "its workers were stopped in order and are expected back",
    HostState.ENROLLED: "its workers have never started",
    HostState.LOST: "its sessions were taken from it; start its workers, or retire it",
    HostState.RETIRED: "never to be heard again, unless it is enrolled anew",
}


def _deaf_after() -> timedelta:
    """Doorbells come with every sweep; three of them and the silence that a host is allowed anyway have passed."""
    schedule: dict[str, Any] = settings.CELERY_BEAT_SCHEDULE  # type: ignore[misc]  # made by the settings' own parts
    return silent_after() + timedelta(seconds=3 * schedule["sweep"]["schedule"])


def state() -> Expression:
    """The state as an annotation; the first line that fits tells."""
    silent = ~is_fresh()
    lines: list[tuple[Q, HostState]] = [
        (Q(retired_at__isnull=False), HostState.RETIRED),
        (silent & Q(boot_id=""), HostState.ENROLLED),
        (Q(lost_at__isnull=False), HostState.LOST),
        (silent & Q(resting_until__gt=Now()), HostState.RESTING),
        (silent, HostState.SILENT),
        (vm_is_silent(), HostState.VM_SILENT),
        (Q(observed_at__lt=Now() - _deaf_after()), HostState.DEAF),
        (Q(moving=True), HostState.MOVING),
        (Q(draining=True), HostState.DRAINING),
    ]
    whens = [When(condition, then=Value(word.value)) for condition, word in lines]
    return Case(*whens, default=Value(HostState.ALIVE.value), output_field=CharField())


def with_state(hosts: "QuerySet[Host] | None" = None) -> "QuerySet[Any]":
    """Hosts, each with its `state`. All of them, if none are named."""
    return (Host.objects.all() if hosts is None else hosts).annotate(state=state())


def counted() -> dict[str, int]:
    """How many hosts are in each state."""
    found = dict(with_state().order_by().values_list("state").annotate(number=Count(F("id"))))
    return {word.value: found.get(word.value, 0) for word in HostState}
