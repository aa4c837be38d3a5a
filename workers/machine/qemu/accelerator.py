"""Which accelerator this host can use. A /dev/kvm that opens is no proof: only a guest that boots under it to an answer is."""

import fcntl
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

from workers.machine.driver import GuestImage, MachineError
from workers.machine.process.identity import boot_id
from workers.machine.qemu.argv import Accelerator
from workers.machine.qemu.binary import QemuBinary
from workers.machine.runtime import write_atomically

TCG, KVM = Accelerator("tcg"), Accelerator("kvm")
KVM_DEVICE = Path("/dev/kvm")
PROOF_SECONDS = 20.0
PROOFS_KEPT = 32

logger = logging.getLogger(__name__)


def choose_accelerator(qemu: QemuBinary, image: GuestImage, proofs: Path, boot_under_kvm: Callable[[float], None]) -> Accelerator:
    """KVM if `boot_under_kvm(seconds)` returns, TCG if it raises MachineError; asked once per host boot, QEMU binary and image.

    The answer is kept in the file `proofs`; a host that was too busy for the proof stays with TCG until that file is deleted or the host
    restarts.
    Of several workers that ask at once, one tries and the others wait for it.
    """
    if not os.access(KVM_DEVICE, os.R_OK | os.W_OK):
        return TCG
    key = f"{boot_id()} {qemu.sha256} {image.digest}"
    proofs.parent.mkdir(parents=True, exist_ok=True)
    with open(proofs.with_name(proofs.name + ".lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = _read(proofs)
        if key not in known:
            known = {**{old: answer for old, answer in known.items() if old.startswith(boot_id())}, key: _prove(boot_under_kvm)}
            write_atomically(proofs, json.dumps(dict(list(known.items())[-PROOFS_KEPT:]), indent=1).encode())
    return KVM if known[key] == KVM.name else TCG


def _prove(boot_under_kvm: Callable[[float], None]) -> str:
    try:
        boot_under_kvm(PROOF_SECONDS)
    except MachineError as error:
        logger.warning("KVM is not used: the guest image did not boot under it (%s)", error)
        return TCG.name
    return KVM.name


def _read(proofs: Path) -> dict[str, str]:
    try:
        known = json.loads(proofs.read_bytes())
    except (OSError, ValueError):
        return {}
    return {key: answer for key, answer in known.items() if isinstance(answer, str)} if isinstance(known, dict) else {}
