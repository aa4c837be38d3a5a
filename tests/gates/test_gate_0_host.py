"""Gate 0: the host can run microVMs."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.gates.room import IMAGES
from workers.guest.image import list_images
from workers.machine.driver import MachineSpec
from workers.machine.qemu.driver import QemuDriver

pytestmark = [pytest.mark.vm, pytest.mark.timeout(120)]


def boot_once(directory: Path, evidence: dict[str, Any]) -> None:
    """The smallest image boots until its agent answers, under the accelerator that the host has proved."""
    image = next(image for image in list_images(IMAGES) if image.name == "tiny")
    driver = QemuDriver(directory / "accelerators.json", image)
    machine = driver.boot(directory / "machine", MachineSpec("gate0", 256 << 20, 1), image, timeout_seconds=60)
    try:
        machine.ping(10)
        facts = driver.pin_facts("x86_64")
        evidence |= {"accelerator": driver.accelerator("x86_64").name, "pin_facts": sorted(facts)}
        assert {"accelerator", "machine_type"} <= set(facts)
    finally:
        machine.kill()


@pytest.mark.gate("0", "The host can run microVMs: an image boots to its agent's answer under an accelerator that was proved by booting")
def test_the_host_boots_a_machine_to_its_agents_answer(tmp_path: Path, evidence: dict[str, Any]) -> None:
    boot_once(tmp_path, evidence)


def test_gate_0_fails_on_a_host_whose_hypervisor_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "qemu-system-x86_64").write_text("#!/bin/sh\nexit 1\n")
    (broken / "qemu-system-x86_64").chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken}:{os.environ['PATH']}")
    with pytest.raises(Exception):  # noqa: B017, PT011  whatever the driver says of such a binary, the gate does not pass
        boot_once(tmp_path, {})
