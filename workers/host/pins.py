"""This host's pins: what its hypervisor, accelerator and kernel are, proved when the worker starts."""

from functools import cache

from checkpoints_app.models import Pin
from checkpoints_app.services import pin as pins
from sessions_app.errors import FleetUnavailable
from workers.host.drivers import driver
from workers.machine.driver import MachineError


@cache
def pin_here(architecture: str) -> Pin:
    """The pin under which this process starts machines. Raises FleetUnavailable, naming what is missing."""
    try:
        facts = driver().pin_facts(architecture)
    except MachineError as error:
        raise FleetUnavailable(
            f"This host cannot run {architecture} machines: {error}. Nothing was started.",
            next_action="Run ./keepstate doctor on the host.",
        ) from error
    return pins.record(architecture, facts)
