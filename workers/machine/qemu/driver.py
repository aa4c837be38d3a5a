"""The driver of QEMU machines on this host: ties the parts to the contract."""

import shutil
import uuid
from functools import cached_property
from pathlib import Path

from workers.machine.driver import Capabilities, GuestImage, Machine, MachineError, MachineSpec, SavedState
from workers.machine.process import alive
from workers.machine.qemu import pins
from workers.machine.qemu.accelerator import KVM, TCG, choose_accelerator
from workers.machine.qemu.argv import Accelerator
from workers.machine.qemu.binary import BINARIES, find_qemu
from workers.machine.qemu.boot import boot
from workers.machine.qemu.guest_hold import HeldChannel
from workers.machine.qemu.machine import QemuMachine
from workers.machine.qemu.resume import resume
from workers.machine.qemu.start import DRIVER_NAME
from workers.machine.runtime import process_of, read_record

PROOF_MEMORY_BYTES = 256 * 1024 * 1024


class QemuDriver:
    """`proofs`: a file of this host in which the accelerator's proof is kept. `proof_image`: what is booted to prove it.

    Without an image nothing is proved and TCG is used. All workers of a host must be given the same image, for the accelerator is part
    of the pin.
    """

    name = DRIVER_NAME

    def __init__(self, proofs: Path, proof_image: GuestImage | None = None):
        self._proofs, self._proof_image = proofs, proof_image

    def capabilities(self) -> Capabilities:
        installed = frozenset(architecture for architecture, binary in BINARIES.items() if shutil.which(binary))
        return Capabilities(installed, live_capture=True, disk=True, network=False, fresh_randomness=True)

    def pin_facts(self, architecture: str) -> dict[str, str]:
        return pins.pin_facts(architecture, find_qemu(architecture), self.accelerator)

    def boot(self, runtime: Path, spec: MachineSpec, image: GuestImage, *, timeout_seconds: float) -> Machine:
        boot(runtime, find_qemu(image.architecture), self.accelerator, spec, image, timeout_seconds)
        return self._live(runtime)

    def resume(self, runtime: Path, spec: MachineSpec, image: GuestImage, saved: SavedState, *, timeout_seconds: float) -> Machine:
        channel = resume(runtime, find_qemu(image.architecture), self.accelerator, spec, image, saved, timeout_seconds)
        return self._live(runtime, channel)

    def attach(self, runtime: Path) -> Machine | None:
        record = read_record(runtime, DRIVER_NAME)
        if record is None or not alive.is_held(runtime) or process_of(runtime, record) is None:
            return None
        return QemuMachine(runtime, record)

    @cached_property
    def accelerator(self) -> Accelerator:
        """Proved at first use, which may take as long as the proof's bound."""
        image = self._proof_image
        if image is None:
            return TCG
        return choose_accelerator(find_qemu(image.architecture), image, self._proofs, lambda seconds: self._boot_under_kvm(image, seconds))

    def _boot_under_kvm(self, image: GuestImage, seconds: float) -> None:
        runtime = self._proofs.parent / f"proof-{uuid.uuid4().hex[:12]}"
        boot(runtime, find_qemu(image.architecture), KVM, MachineSpec("proof", PROOF_MEMORY_BYTES, 1), image, seconds)
        QemuMachine(runtime, read_record(runtime, DRIVER_NAME) or {}).kill()
        shutil.rmtree(runtime, ignore_errors=True)

    def _live(self, runtime: Path, channel: HeldChannel | None = None) -> Machine:
        record = read_record(runtime, DRIVER_NAME)
        if record is None or not alive.is_held(runtime):
            raise MachineError("machine_dead", f"The machine of {runtime} ended right after it had started.")
        return QemuMachine(runtime, record, channel)
