"""Samples of the service's gauges, every few minutes, kept for some weeks: what the dashboard draws over time.

A gauge is registered by the app that can read it (`steps.gauges`); its name is a word of ours.
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, Sum
from django.db.models.functions import Now

from sessions_app.models import AccountUsage, Sample, Session
from sessions_app.services import steps
from sessions_app.services.database import hold
from sessions_app.states import SESSION_LIVE

KEPT = timedelta(days=35)
RUNNING_MACHINES = "running_machines"
STORED_BYTES = "stored_bytes"
#: Two beats, or a turn that comes late, take none twice.
APART = timedelta(minutes=2)
#: Old samples that one turn forgets.
_BATCH = 5000


def gauges() -> dict[str, int]:
    """The bytes are those of the accounts that were measured (services/stored.py)."""
    return {
        RUNNING_MACHINES: Session.objects.filter(runtime_state__in=SESSION_LIVE).count(),
        STORED_BYTES: AccountUsage.objects.aggregate(total=Sum("stored_bytes"))["total"] or 0,
    }


@transaction.atomic
def take() -> int:
    """Read each gauge and write it down, unless that was done a moment ago; forget what is older than `KEPT`. Returns how many samples
    were written.
    """
    hold("samples")
    if Sample.objects.filter(at__gt=Now() - APART).exists():
        return 0
    read = {name: value for contribute in steps.gauges for name, value in contribute().items()}
    Sample.objects.bulk_create([Sample(gauge=name, value=value) for name, value in read.items()])
    old = Sample.objects.filter(at__lt=Now() - KEPT).values("id")[:_BATCH]
    Sample.objects.filter(id__in=old).delete()
    return len(read)


def between(gauge: str, since: datetime) -> list[tuple[datetime, int]]:
    """The gauge's samples from then on, oldest first. A week of them is about two thousand."""
    found = Sample.objects.filter(gauge=gauge, at__gte=since).order_by("at")
    return list(found.values_list("at", "value"))


def newest() -> datetime | None:
    """When a sample was taken last; None if none ever was."""
    newest: datetime | None = Sample.objects.filter(gauge=RUNNING_MACHINES).aggregate(newest=Max("at"))["newest"]
    return newest
