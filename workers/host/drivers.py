"""The machine driver of this installation (KEEPSTATE_MACHINE_DRIVER): QEMU, or the fake for tests without a VM."""

import os
from collections.abc import Callable, Mapping
from functools import cache

from django.conf import settings

from workers.guest.image import list_images
from workers.host.identity import host_directory, images_directory, networks_directory
from workers.machine.driver import MachineDriver
from workers.machine.process.isolation import Isolation
from workers.machine.qemu.driver import QemuDriver

#: The image whose boot proves an accelerator, by the host's architecture: the smallest, and the same for every worker of the host.
PROOF_IMAGES = {"x86_64": "tiny", "aarch64": "tiny-arm64"}


def _qemu() -> MachineDriver:
    name = PROOF_IMAGES.get(os.uname().machine)
    proof = [image for image in list_images(images_directory()) if image.name == name]
    return QemuDriver(host_directory() / "accelerators.json", proof[-1] if proof else None, _isolation(), networks_directory())


def _isolation() -> Isolation:
    uids: range = settings.KEEPSTATE_MACHINE_UIDS
    return Isolation(settings.KEEPSTATE_ISOLATION, uids.start, len(uids), cgroup=settings.KEEPSTATE_CGROUP)


def _fake() -> MachineDriver:
    from workers.machine.fake.driver import FakeDriver

    return FakeDriver()


_DRIVERS: Mapping[str, Callable[[], MachineDriver]] = {"qemu": _qemu, "fake": _fake}


@cache
def driver() -> MachineDriver:
    return _DRIVERS[settings.KEEPSTATE_MACHINE_DRIVER]()
