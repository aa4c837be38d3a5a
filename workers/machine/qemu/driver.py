"""The driver of QEMU machines on this host: ties the parts to the contract."""

import os
import shutil
import uuid
from functools import cached_property
from pathlib import Path

from workers.machine.driver import Capabilities, GuestImage, Machine, MachineError, MachineSpec, SavedState
from workers.machine.network import namespace
from workers.machine.process import alive
from workers.machine.process.isolation import AUTO, Isolation
from workers.machine.qemu import pins
from workers.machine.qemu.accelerator import KVM, TCG, choose_accelerator
from workers.machine.qemu.argv import Accelerator
from workers.machine.qemu.binary import find_qemu
from workers.machine.qemu.boot import boot
from workers.machine.qemu.guest_hold import HeldChannel
from workers.machine.qemu.machine import QemuMachine
from workers.machine.qemu.platform import installed
from workers.machine.qemu.resume import resume
from workers.machine.qemu.start import DRIVER_NAME
from workers.machine.runtime import process_of, read_record

PROOF_MEMORY_BYTES = 256 * 1024 * 1024


class QemuDriver:
    """`proofs`: a file of this host in which the accelerator's proof is kept. `proof_image`: what is booted to prove it.

    Without an image of the host's own architecture nothing is proved and TCG is used; other architectures are always emulated. All workers
    of a host must be given the same image, for the accelerator is part of the pin. `networks`: where machines' network namespaces are held;
    without, or where none can be made, a machine's network device is plugged into nothing.
    """

    name = DRIVER_NAME

    def __init__(self, proofs: Path, proof_image: GuestImage | None = None, isolation: Isolation = AUTO, networks: Path | None = None):
        self._proofs, self._proof_image, self._isolation = proofs, proof_image, isolation
        self._networks = networks

    def capabilities(self) -> Capabilities:
        return Capabilities(installed(), live_capture=True, disk=True, network=self._reachable() is not None, fresh_randomness=True)

    def pin_facts(self, architecture: str) -> dict[str, str]:
        return pins.pin_facts(architecture, find_qemu(architecture), self.accelerator(architecture))

    def pin_facts_without_network(self, architecture: str) -> dict[str, str] | None:
        return pins.pin_facts(architecture, find_qemu(architecture), self.accelerator(architecture), with_network=False)

    def boot(self, runtime: Path, spec: MachineSpec, image: GuestImage, *, timeout_seconds: float) -> Machine:
        qemu, accelerator = find_qemu(image.architecture), self.accelerator(image.architecture)
        boot(runtime, qemu, accelerator, spec, image, timeout_seconds, self._isolation, self._reachable())
        return self._live(runtime)

    def resume(self, runtime: Path, spec: MachineSpec, image: GuestImage, saved: SavedState, *, timeout_seconds: float) -> Machine:
        qemu, accelerator = find_qemu(image.architecture), self.accelerator(image.architecture)
        channel = resume(runtime, qemu, accelerator, spec, image, saved, timeout_seconds, self._isolation, self._reachable())
        return self._live(runtime, channel)

    def attach(self, runtime: Path) -> Machine | None:
        record = read_record(runtime, DRIVER_NAME)
        if record is None or not alive.is_held(runtime) or process_of(runtime, record) is None:
            return None
        return QemuMachine(runtime, record)

    def accelerator(self, architecture: str) -> Accelerator:
        """Proved at first use, which may take as long as the proof's bound."""
        return self._own_accelerator if architecture == os.uname().machine else TCG

    @cached_property
    def _own_accelerator(self) -> Accelerator:
        image = self._proof_image
        if image is None or image.architecture != os.uname().machine:
            return TCG
        return choose_accelerator(find_qemu(image.architecture), image, self._proofs, lambda seconds: self._boot_under_kvm(image, seconds))

    def _boot_under_kvm(self, image: GuestImage, seconds: float) -> None:
        runtime = self._proofs.parent / f"proof-{uuid.uuid4().hex[:12]}"
        boot(runtime, find_qemu(image.architecture), KVM, MachineSpec("proof", PROOF_MEMORY_BYTES, 1), image, seconds, self._isolation)
        QemuMachine(runtime, read_record(runtime, DRIVER_NAME) or {}).kill()
        shutil.rmtree(runtime, ignore_errors=True)

    def _reachable(self) -> Path | None:
        return self._networks if self._networks is not None and namespace.obstacle() is None else None

    def _live(self, runtime: Path, channel: HeldChannel | None = None) -> Machine:
        record = read_record(runtime, DRIVER_NAME)
        if record is None or not alive.is_held(runtime):
            raise MachineError("machine_dead", f"The machine of {runtime} ended right after it had started.")
        return QemuMachine(runtime, record, channel)
