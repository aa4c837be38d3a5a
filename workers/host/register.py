"""A host tells the fleet what it is: size, pins, images. Called when its workers start; safe to repeat."""

import logging
import os

from django.conf import settings

from checkpoints_app.models import Pin
from checkpoints_app.services import image as images
from sessions_app.errors import FleetUnavailable
from sessions_app.services import waiting
from workers.guest.image import list_images, read_description
from workers.host.claim import claim
from workers.host.drivers import driver
from workers.host.identity import boot_id, host_directory, images_directory
from workers.host.pins import resumable_here
from workers.host.proved import keep
from workers.models import Host

MIB = 1 << 20

log = logging.getLogger(__name__)


def _keep_private() -> None:
    """What lies here is the memory and the disks of guests, in the clear: nobody but this user may come near it."""
    host_directory().mkdir(parents=True, exist_ok=True)
    host_directory().chmod(0o700)


def register(*, vm: bool = False) -> Host:
    """A start: the host is heard of again, is not resting or lost any more, and drains on if it did. `vm`: the start of its vm worker.

    Raises FleetUnavailable if no architecture can be proved: a host that cannot run machines takes no work. Raises HostRefused if the id is
    another installation's, or retired: nothing was written.
    """
    _keep_private()
    proved = prove()
    host = claim(
        vm=vm,
        memory_bytes=memory_bytes(),
        cpus=os.cpu_count() or 1,
        boot_id=boot_id(),
        network=driver().capabilities().network,
    )
    keep(host, proved)
    waiting.wake()
    return host


def prove() -> list[Pin]:
    """The pins of each architecture that this host runs; one that is installed and does not answer as it must is left out, and logged."""
    architectures = driver().capabilities().architectures or {os.uname().machine}  # with none, the refusal names what to install
    proved: list[Pin] = []
    refusals = []
    for architecture in sorted(architectures):
        try:
            proved += resumable_here(architecture)
        except FleetUnavailable as refusal:
            log.error("architecture not proved", extra={"architecture": architecture, "reason": refusal.message})
            refusals.append(refusal)
    if not proved:
        raise refusals[0]
    return proved


def register_images() -> list[str]:
    """Record the images that lie on this host; returns their names."""
    names = []
    for found in list_images(images_directory()):
        image = read_description(found.kernel.parent)
        images.register(
            digest=image.digest,
            name=image.name,
            architecture=image.architecture,
            default_memory_bytes=image.default_memory_mib * MIB,
            disk_bytes=image.disk_bytes,
            facts={"distribution": image.distribution, "packages": image.packages},
        )
        names.append(image.name)
    return names


def memory_bytes() -> int:
    """This machine's, or its share where several hosts are on one."""
    share: int = settings.KEEPSTATE_HOST_SHARE
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // share
