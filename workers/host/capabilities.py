"""Which machines this installation can run now."""

from django.db.models.functions import Now

from checkpoints_app.models import Image
from sessions_app.services.steps import CapabilityRow
from workers.host.compatibility import FRESH
from workers.models import Host


def rows() -> list[CapabilityRow]:
    """One row for each architecture that there is an image for: degraded while no live host runs it."""
    live = set(Host.objects.filter(heartbeat_at__gt=Now() - FRESH, draining=False).values_list("pins__architecture", flat=True))
    return [_row(architecture, architecture in live) for architecture in sorted(set(Image.objects.values_list("architecture", flat=True)))]


def _row(architecture: str, runs: bool) -> CapabilityRow:
    summary = f"Machines of the architecture {architecture}."
    if runs:
        return CapabilityRow(f"machines.{architecture}", "available", summary, routes=("sessions",))
    note = f"No live host takes {architecture} machines: starts and resumes of them are refused until one does."
    return CapabilityRow(f"machines.{architecture}", "degraded", summary, note=note, routes=("sessions",))
