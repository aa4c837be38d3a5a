"""What QEMU would accept in silence is refused before it starts, naming the field with both values.

The pins are those of the QEMU that this host has; the machines are fake, for none may start.
"""

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import pin as recorded_pins
from sessions_app.models import Operation, Session
from tests.integration.operations.world import World, error_of, live_machines
from workers.host.register import register
from workers.machine.fake.driver import FakeDriver
from workers.machine.qemu import argv, binary, pins, platform
from workers.machine.qemu.accelerator import KVM, TCG
from workers.machine.qemu.argv import Accelerator
from workers.machine.qemu.binary import find_qemu
from workers.machine.qemu.probe import Probe, probe

pytestmark = pytest.mark.vm
X86 = platform.X86_64


def facts(accelerator: Accelerator = TCG, architecture: str = "x86_64") -> dict[str, str]:
    """The pin's facts as a worker of this host would find them now."""
    return pins.pin_facts(architecture, find_qemu(architecture), accelerator)


def another_cpu_model(patch: pytest.MonkeyPatch) -> dict[str, str]:
    patch.setitem(platform.PLATFORMS, "x86_64", replace(X86, emulated_cpu="qemu64"))
    return facts()


def kvm_for_tcg(patch: pytest.MonkeyPatch) -> dict[str, str]:
    patch.setattr(pins, "probe", lambda *_: Probe(cpu_sha256="c" * 64, modules_sha256=facts_of_tcg["hypervisor_modules_sha256"]))
    return facts(KVM)


def an_extra_device(patch: pytest.MonkeyPatch) -> dict[str, str]:
    patch.setattr(argv, "DEVICES", (*argv.DEVICES, {"driver": "virtio-rng-pci", "id": "another"}))
    return facts()


def another_host_kernel(patch: pytest.MonkeyPatch) -> dict[str, str]:
    here = os.uname()
    patch.setattr(os, "uname", lambda: os.uname_result((here.sysname, here.nodename, "9.9.9", here.version, here.machine)))
    return facts()


def another_machine_version(patch: pytest.MonkeyPatch) -> dict[str, str]:
    patch.setattr(platform.Platform, "newest_machine_type", lambda *_: "pc-q35-6.2")
    binary._probe.cache_clear()
    return facts()


def another_firmware(patch: pytest.MonkeyPatch) -> dict[str, str]:
    patch.setitem(platform.PLATFORMS, "x86_64", replace(X86, optional_firmware=(*X86.optional_firmware, "bios.bin")))
    return facts()


def another_module_of_the_hypervisor(patch: pytest.MonkeyPatch) -> dict[str, str]:
    patch.setattr(pins, "probe", lambda *asked: replace(probe(*asked), modules_sha256="m" * 64))
    return facts()


MISMATCHES: dict[str, tuple[Callable[[pytest.MonkeyPatch], dict[str, str]], set[str]]] = {
    "the CPU model": (another_cpu_model, {"cpu"}),
    "KVM for TCG": (kvm_for_tcg, {"accelerator", "cpu"}),
    "an extra device": (an_extra_device, {"devices"}),
    "the host's kernel": (another_host_kernel, {"host_kernel"}),
    "the machine type's version": (another_machine_version, {"machine_type"}),
    "the firmware": (another_firmware, {"firmware_sha256"}),
    "a module of the hypervisor": (another_module_of_the_hypervisor, {"hypervisor_modules_sha256"}),
}
facts_of_tcg: dict[str, str] = {}


@pytest.fixture
def parked(world: World, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session that was saved and stopped under the pin of this host's QEMU."""
    binary._probe.cache_clear()
    found = facts()
    facts_of_tcg.update(found)
    monkeypatch.setattr(FakeDriver, "pin_facts", lambda *_: dict(found))
    register()
    session = world.boot()
    world.save(session, stop=True)
    return session


@pytest.mark.parametrize("what", MISMATCHES)
def test_a_mismatch_is_refused_before_a_hypervisor_starts_and_is_named_with_both_values(
    world: World, parked: Session, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    change, fields = MISMATCHES[what]
    operation = world.ask_resume(parked)
    with monkeypatch.context() as patch:
        here = change(patch)
    binary._probe.cache_clear()
    monkeypatch.setattr(FakeDriver, "pin_facts", lambda *_: here)
    error = refused(monkeypatch, operation)
    differences = error["differences"]
    assert isinstance(differences, dict)
    assert set(differences) == fields
    assert all(differences[name] == {"checkpoint": facts_of_tcg[name], "host": here[name]} for name in fields)
    assert all(name in str(error["message"]) for name in fields)


def refused(monkeypatch: pytest.MonkeyPatch, operation: Operation) -> dict[str, object]:
    """The refusal, after it was seen that nothing was started for it."""
    started: list[str] = []
    monkeypatch.setattr(FakeDriver, "resume", lambda *_, **__: started.append("resume"))
    error = error_of(operation)
    assert (error["code"], started, live_machines()) == ("ks_stack_incompatible", [], [])
    return error


@pytest.mark.skipif(not platform.installed() >= {"x86_64", "aarch64"}, reason="this host runs no arm64 machines")
def test_a_checkpoint_of_an_arm64_machine_never_resumes_as_an_x86_64_one(
    world: World, parked: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = facts(architecture="aarch64")
    operation = world.ask_resume(parked)
    Checkpoint.objects.filter(session=parked).update(pin=recorded_pins.record("aarch64", arm))
    error = refused(monkeypatch, operation)
    differences = error["differences"]
    assert isinstance(differences, dict)
    assert {"architecture", "machine_type", "cpu", "devices", "hypervisor_sha256"} <= set(differences)
    assert differences["architecture"] == {"checkpoint": "aarch64", "host": "x86_64"}
