"""The queues that this host's workers listen on."""

from sessions_app.services.dispatch import CONTROL_QUEUE, host_queue, io_queue, pin_queue
from workers.host.identity import host_id
from workers.models import HostPin


def vm_queues() -> list[str]:
    """Prerequisite: the host is registered, so that its pins are known."""
    pins = HostPin.objects.filter(host_id=host_id()).values_list("pin_id", flat=True)
    return [host_queue(host_id()), *(pin_queue(pin) for pin in sorted(pins))]


def io_queues() -> list[str]:
    return [io_queue(host_id())]


def control_queues() -> list[str]:
    return [CONTROL_QUEUE]
