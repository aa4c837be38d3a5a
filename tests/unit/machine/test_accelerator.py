"""KVM is used only where a guest has been seen to answer under it, and that is asked once."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workers.machine.driver import GuestImage, MachineError
from workers.machine.qemu import accelerator
from workers.machine.qemu.accelerator import KVM, TCG, choose_accelerator
from workers.machine.qemu.binary import QemuBinary

QEMU = QemuBinary(Path("/qemu"), "a" * 64, "pc-q35-7.2", False, ())
IMAGE = GuestImage("b" * 64, "tiny", "x86_64", Path("/k"), Path("/i"), None, 0, "")


class Proof:
    def __init__(self, works):
        self.works, self.asked = works, 0

    def __call__(self, seconds):
        self.asked += 1
        if not self.works:
            raise MachineError("boot_failed", "the guest did not answer in time")


@pytest.fixture
def kvm(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerator, "KVM_DEVICE", tmp_path / "kvm")
    (tmp_path / "kvm").touch()


@pytest.mark.usefixtures("kvm")
@pytest.mark.parametrize(("works", "expected"), [(True, KVM), (False, TCG)])
def test_the_answer_is_what_the_boot_showed_and_is_asked_once(tmp_path, works, expected):
    proof = Proof(works)
    for _ in range(3):
        assert choose_accelerator(QEMU, IMAGE, tmp_path / "proofs", proof) == expected
    assert proof.asked == 1


def test_without_the_device_nothing_is_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerator, "KVM_DEVICE", tmp_path / "absent")
    proof = Proof(True)
    assert choose_accelerator(QEMU, IMAGE, tmp_path / "proofs", proof) == TCG
    assert proof.asked == 0


@pytest.mark.usefixtures("kvm")
def test_a_proof_of_another_host_boot_binary_or_image_does_not_count(tmp_path, monkeypatch):
    proofs, works, fails = tmp_path / "proofs", Proof(True), Proof(False)
    assert choose_accelerator(QEMU, IMAGE, proofs, works) == KVM
    monkeypatch.setattr(accelerator, "boot_id", lambda: "the next boot")
    assert choose_accelerator(QEMU, IMAGE, proofs, fails) == TCG
    other = QemuBinary(Path("/qemu"), "c" * 64, "pc-q35-7.2", False, ())
    assert choose_accelerator(other, IMAGE, proofs, works) == KVM
    assert len(json.loads(proofs.read_text())) == 2  # the boot that is over was forgotten


@pytest.mark.usefixtures("kvm")
@pytest.mark.parametrize("damage", ["", "{", "[]", '{"x": 1}'])
def test_a_damaged_file_of_proofs_is_made_again(tmp_path, damage):
    proofs = tmp_path / "proofs"
    proofs.write_text(damage)
    assert choose_accelerator(QEMU, IMAGE, proofs, Proof(True)) == KVM
    assert list(json.loads(proofs.read_text()).values()) == ["kvm"]


@pytest.mark.usefixtures("kvm")
def test_of_many_workers_that_ask_at_once_one_tries(tmp_path):
    proof, together = Proof(True), threading.Barrier(4)

    def ask(_):
        together.wait()
        return choose_accelerator(QEMU, IMAGE, tmp_path / "proofs", proof)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(4))) == {KVM}
    assert proof.asked == 1
