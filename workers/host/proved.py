"""Which pins a host proves, and which it proved before: an upgrade of QEMU, of the kernel or of microcode makes another one."""

import logging
from collections.abc import Iterable

from django.db import transaction
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint, Pin
from checkpoints_app.states import CheckpointState
from sessions_app.services import record
from sessions_app.states import RecordKind
from workers.host import liveness
from workers.models import FormerPin, Host, HostPin

log = logging.getLogger(__name__)


@transaction.atomic
def keep(host: Host, proved: Iterable[Pin]) -> None:
    """These are the host's pins from now on. One that it does not prove any more takes no work there, and is remembered.

    Where that leaves valid checkpoints without any live host, the service record and the log say so.
    """
    now = list(proved)
    lost = HostPin.objects.filter(host=host).exclude(pin__in=now)
    gone = list(lost.values_list("pin_id", flat=True))
    _remember(host, lost)
    FormerPin.objects.filter(host_id=host.id, pin__in=now).delete()
    for pin in now:
        HostPin.objects.update_or_create(host=host, pin=pin, defaults={"proved_at": Now()})
    _tell(host, gone)


@transaction.atomic
def give_up(host: Host) -> None:
    """The host proves nothing any more: it left the fleet."""
    lost = HostPin.objects.filter(host=host)
    gone = list(lost.values_list("pin_id", flat=True))
    _remember(host, lost)
    _tell(host, gone)


def _remember(host: Host, lost: Iterable[HostPin]) -> None:
    rows = [FormerPin(host_id=host.id, pin_id=row.pin_id, proved_at=row.proved_at, lost_at=Now()) for row in lost]
    FormerPin.objects.bulk_create(rows, update_conflicts=True, unique_fields=["host_id", "pin"], update_fields=["proved_at", "lost_at"])
    HostPin.objects.filter(host=host, pin__in=[row.pin_id for row in rows]).delete()


def _tell(host: Host, gone: list[str]) -> None:
    held = HostPin.objects.filter(liveness.is_fresh("host__"), pin__in=gone).values_list("pin_id", flat=True)
    for pin in sorted(set(gone) - set(held)):
        saved = Checkpoint.objects.filter(pin=pin, state=CheckpointState.PUBLISHED)
        sessions = saved.values("session").distinct().count()
        if not sessions:
            continue
        facts = {"host_id": host.id, "pin": pin, "checkpoints": saved.count(), "sessions": sessions}
        record.write(RecordKind.LIFECYCLE, "host.pin_lost", account_id="", actor=host.id, facts=facts)
        log.warning("no live host holds this pin any more: what was saved under it resumes nowhere until one does", extra=facts)
