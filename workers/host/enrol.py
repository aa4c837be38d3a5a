"""A host's place in the fleet: made before its workers start, labelled, given up. An operator's acts, each a line of the service record."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from django.db import transaction
from django.db.models.functions import Now

from sessions_app.errors import Conflict, Invalid
from sessions_app.models import Operation, Session
from sessions_app.services.by_operator import write
from sessions_app.services.database import hold
from sessions_app.states import OPERATION_ACTIVE, SessionState
from workers.host import proved
from workers.host.identity import SAFE
from workers.host.placement import LOCK
from workers.models import Host

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_VALUE = re.compile(r"[A-Za-z0-9._/-]{0,63}")
MOST_LABELS = 32
#: Of a host that was never heard of.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@transaction.atomic
def enrol(host_id: str, by: str, *, labels: Mapping[str, str], offered_bytes: int | None) -> Host:
    """A row whose workers have not started; or a retired host anew, for whatever installation starts under its id first.

    Raises Invalid, or Conflict for a host that is in the fleet: nothing was done.
    """
    if not SAFE.fullmatch(host_id):
        raise Invalid(f"{host_id!r} is no host id: 1 to 40 of a-z, 0-9 and '-'. Nothing was done.")
    _require_labels(labels)
    new = Host(id=host_id, memory_bytes=0, cpus=0, boot_id="", heartbeat_at=NEVER)
    Host.objects.bulk_create([new], ignore_conflicts=True)
    fresh = {"labels": dict(labels), "offered_bytes": offered_bytes, "instance": "", "boot_id": "", "heartbeat_at": NEVER}
    quiet = {"draining": False, "moving": False, "moving_since": None, "resting_until": None, "lost_at": None, "retired_at": None}
    quiet |= {"vm_heard_at": None, "vm_missing_at": None}
    known = Host.objects.filter(id=host_id)
    if not (known.filter(retired_at__isnull=False) | known.filter(boot_id="")).update(**fresh, **quiet):
        raise Conflict(f"The host {host_id} is in the fleet already. Nothing was done.", next_action=f"./keepstate host show {host_id}")
    write("enrol", by, account_id="", host_id=host_id)
    return known.get()


@transaction.atomic
def label(host: Host, by: str, *, put: Mapping[str, str], drop: set[str]) -> dict[str, str]:
    """The labels after it. Raises Invalid: nothing was done."""
    row = Host.objects.select_for_update(no_key=True).get(id=host.id)
    labels = {name: value for name, value in {**row.labels, **put}.items() if name not in drop}
    _require_labels(labels)
    Host.objects.filter(id=host.id).update(labels=labels)
    write("label", by, account_id="", host_id=host.id, labels=labels)
    return labels


def _require_labels(labels: Mapping[str, str]) -> None:
    bad = [name for name, value in labels.items() if not _LABEL.fullmatch(name) or not _VALUE.fullmatch(value)]
    if bad or len(labels) > MOST_LABELS:
        wrong = f"not a label: {', '.join(bad)}" if bad else f"more than {MOST_LABELS} labels"
        raise Invalid(f"{wrong}. Nothing was done. Names and values are at most 63 of A-Z, a-z, 0-9 and '._/-'.")


@transaction.atomic
def offer(host: Host, by: str, offered_bytes: int | None) -> None:
    """How much memory its machines may have together; None: by the memory that it has. What runs there runs on, also above it."""
    if offered_bytes is not None and offered_bytes < 0:
        raise Invalid("A host offers 0 MiB or more. Nothing was done.")
    Host.objects.filter(id=host.id).update(offered_bytes=offered_bytes)
    write("offer", by, account_id="", host_id=host.id, offered_bytes=offered_bytes)


@transaction.atomic
def retire(host: Host, by: str) -> None:
    """It takes no work, is rung no more, and its workers end; its pins count nowhere. Safe for what is saved: that lies in the store.

    Raises Conflict while it has machines, or work of its own: nothing was done.
    """
    known = Host.objects.select_for_update().get(id=host.id)
    if known.retired_at is not None:
        raise Conflict(f"The host {host.id} is retired already. Nothing was done.")
    hold(LOCK)  # what is being placed there now counts too
    sessions, asked = holds(host)
    if sessions or asked:
        raise Conflict(
            f"The host {host.id} has {sessions} sessions and {asked} operations. It was not retired.",
            next_action=f"./keepstate host drain {host.id} --move, and wait; or, if it is gone for good: ./keepstate host lost {host.id}.",
            facts={"sessions": sessions, "operations": asked},
        )
    Host.objects.filter(id=host.id).update(retired_at=Now(), draining=False, moving=False, moving_since=None, resting_until=None)
    proved.give_up(host)
    write("retire", by, account_id="", host_id=host.id)


def holds(host: Host) -> tuple[int, int]:
    """How many sessions have their machine there, and how many operations are to be done there."""
    sessions = Session.objects.filter(host_id=host.id).exclude(runtime_state=SessionState.DELETED).count()
    return sessions, Operation.objects.filter(host_id=host.id, state__in=OPERATION_ACTIVE).count()
