"""This host's pins, one per architecture: what its hypervisor, accelerator and kernel are. The accelerator is proved once per boot of the
host.
"""

from checkpoints_app.models import Pin
from checkpoints_app.services import pin as pins
from sessions_app.errors import FleetUnavailable
from workers.host.drivers import driver
from workers.machine.driver import MachineError


def resumable_here(architecture: str) -> list[Pin]:
    """The pins under which a checkpoint resumes here: that of a boot, and that of machines which were saved before they had a network.

    Raises FleetUnavailable, naming what is missing.
    """
    here = pin_here(architecture)
    older = driver().pin_facts_without_network(architecture)
    return [here, *([] if older is None else [pins.record(architecture, older)])]


def has_network(pin_digest: str, architecture: str) -> bool:
    """Whether the machine of a checkpoint with that pin has a network device. False: it is an older one, and resumes here."""
    older = driver().pin_facts_without_network(architecture)
    return older is None or pins.digest(older) != pin_digest


def pin_here(architecture: str) -> Pin:
    """The pin under which a machine would start now: a hypervisor that was upgraded under a running worker is another one.

    Raises FleetUnavailable, naming what is missing.
    """
    try:
        facts = driver().pin_facts(architecture)
    except MachineError as error:
        raise FleetUnavailable(
            f"This host cannot run {architecture} machines: {error} Nothing was started.",
            next_action="Run ./keepstate doctor on the host.",
        ) from error
    return pins.record(architecture, facts)
