"""Which machines this installation can run now, and whether they reach the gateway."""

from checkpoints_app.models import Image
from sessions_app.services.steps import CapabilityRow
from workers.host import liveness


def rows() -> list[CapabilityRow]:
    """One row for each architecture that there is an image for, degraded while no live host runs it; and one for the machines' network."""
    hosts = liveness.takes_work()
    live = set(hosts.values_list("pins__architecture", flat=True))
    runs = [_row(architecture, architecture in live) for architecture in sorted(set(Image.objects.values_list("architecture", flat=True)))]
    return [*runs, _network_row(list(hosts.values_list("network", flat=True)))]


def _network_row(able: list[bool]) -> CapabilityRow:
    summary = "Machines have a network of their own, in which they reach the model gateway and nothing else."
    if able and all(able):
        return CapabilityRow("machines.network", "available", summary, routes=("sessions",))
    note = "Some live hosts cannot give" if any(able) else "No live host gives"
    note += " their machines a network: model calls made there do not arrive. Everything else of a machine works."
    return CapabilityRow("machines.network", "degraded", summary, note=note, routes=("sessions",))


def _row(architecture: str, runs: bool) -> CapabilityRow:
    summary = f"Machines of the architecture {architecture}."
    if runs:
        return CapabilityRow(f"machines.{architecture}", "available", summary, routes=("sessions",))
    note = f"No live host takes {architecture} machines: starts and resumes of them are refused, or wait, until one does."
    return CapabilityRow(f"machines.{architecture}", "degraded", summary, note=note, routes=("sessions",))
