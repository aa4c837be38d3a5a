"""What is asked of a QEMU that is started for the question: with a program in its place that speaks as much of its protocol."""

from dataclasses import replace
from pathlib import Path

import pytest

from workers.machine.driver import MachineError
from workers.machine.qemu import probe as probing
from workers.machine.qemu.argv import Accelerator
from workers.machine.qemu.binary import QemuBinary
from workers.machine.qemu.pins import cpu_model
from workers.machine.qemu.platform import AARCH64, X86_64
from workers.machine.qemu.probe import Probe, probe

GREETING = """echo '{"QMP": {}}'; read -r negotiate; echo '{"return": {}}'; read -r question"""


def qemu(directory: Path, script: str) -> QemuBinary:
    program = directory / "qemu"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return QemuBinary(program, "a" * 64, "pc-q35-7.2", False, ())


def answer(directory: Path, properties: str) -> Probe:
    directory.mkdir()
    expanded = f'{{"return": {{"model": {{"name": "host", "props": {properties}}}}}}}'
    script = f"""{GREETING}; echo '{{"event": "RESUME"}}'; echo '{expanded}'; exec sleep 60"""
    return probe(qemu(directory, script), "pc-q35-7.2", "kvm", "host")


def test_processors_of_equal_properties_are_equal_whatever_their_order(tmp_path: Path) -> None:
    one = answer(tmp_path / "one", '{"avx": true, "aes": false}')
    assert one == answer(tmp_path / "two", '{"aes": false, "avx": true}')
    assert one != answer(tmp_path / "three", '{"aes": true, "avx": true}')


@pytest.mark.parametrize(
    "script",
    [
        "echo 'failed to set MSR 0x10a' >&2; exit 1",
        f"{GREETING}; echo 'failed to set MSR 0x10a' >&2",
        f"""{GREETING}; echo 'failed to set MSR 0x10a' >&2; echo '{{"error": {{"desc": "no"}}}}'; exec sleep 60""",
        f"{GREETING}; echo 'failed to set MSR 0x10a' >&2; echo 'no JSON'; exec sleep 60",
    ],
)
def test_a_hypervisor_that_does_not_answer_is_missing_and_its_words_are_told(tmp_path: Path, script: str) -> None:
    with pytest.raises(MachineError, match="failed to set MSR 0x10a") as failure:
        probe(qemu(tmp_path, script), "pc-q35-7.2", "kvm", "host")
    assert failure.value.code == "hypervisor_missing"


def test_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "PROBE_SECONDS", 0.2)
    with pytest.raises(MachineError):
        probe(qemu(tmp_path, "exec sleep 60"), "pc-q35-7.2", "kvm", "host")


@pytest.mark.parametrize("platform", [X86_64, AARCH64])
def test_under_kvm_what_the_guest_sees_is_part_of_the_models_name_and_emulated_it_is_not(platform) -> None:
    one, other = Probe("1" * 64, "m" * 64), Probe("2" * 64, "m" * 64)
    assert cpu_model(platform, Accelerator("kvm"), one) != cpu_model(platform, Accelerator("kvm"), other)
    assert cpu_model(platform, Accelerator("tcg"), one) == cpu_model(platform, Accelerator("tcg"), other) == platform.emulated_cpu


def test_another_processor_or_microcode_is_another_name_under_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Probe("1" * 64, "m" * 64)
    named = cpu_model(X86_64, Accelerator("kvm"), seen)
    assert cpu_model(replace(X86_64, processor_lines=("vendor_id",)), Accelerator("kvm"), seen) != named
