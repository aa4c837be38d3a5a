"""Gate pin: a checkpoint resumes only on what it was taken on, shown on an arm64 session that lives beside x86-64 ones."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gates.room import IMAGES, Room, Subject
from workers.guest.image import list_images

QEMU = shutil.which("qemu-system-aarch64")
pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(300),
    pytest.mark.skipif(QEMU is None, reason="this host runs no arm64 machines: apt-get install qemu-system-arm"),
    pytest.mark.skipif(
        not any(image.name == "tiny-arm64" for image in list_images(IMAGES)),
        reason="the image is not built: python -m workers.guest tiny-arm64",
    ),
]


@contextmanager
def another_build(opened: Room) -> Iterator[None]:
    """As after an upgrade under running workers: the program that they find is one byte longer, and does the same."""
    assert QEMU is not None
    upgraded = opened.programs / Path(QEMU).name
    shutil.copy(QEMU, upgraded)
    with open(upgraded, "ab") as program:
        program.write(b"\0")
    try:
        yield
    finally:
        upgraded.unlink()


def prove_pin(opened: Room, subject: Subject, evidence: dict[str, Any]) -> None:
    assert subject.exec("uname -m")["stdout"].strip() == "aarch64"
    at_save, nonce = subject.status()
    subject.save(stop=True)
    with another_build(opened):
        refused = subject.ended(subject.ask("resume", {}))
        assert refused["state"] == "failed"
        assert refused["error"]["code"] == "ks_stack_incompatible"
        assert list(refused["error"]["differences"]) == ["hypervisor_sha256"]
        assert subject.pids() == []
    resumed = subject.resume()
    count, after = subject.status()
    assert after == nonce
    assert count >= at_save
    evidence |= {
        "refused_naming": list(refused["error"]["differences"]),
        "resumed_seconds": resumed["answered_seconds"],
        "architecture": "aarch64",
    }


@pytest.mark.gate(
    "pin",
    "A checkpoint resumes on the hypervisor build it was taken on and is refused on another before anything starts, on arm64 as on x86-64",
)
def test_another_build_is_refused_and_the_same_resumes(gate_room: Room, evidence: dict[str, Any]) -> None:
    subject = gate_room.start("tiny-arm64")
    prove_pin(gate_room, subject, evidence)
    subject.delete()


def test_gate_pin_fails_when_pins_are_not_compared(sabotaged_room: Room) -> None:
    with sabotaged_room.without("pins_are_not_compared") as sabotaged:
        subject = sabotaged.start("tiny-arm64")
        with pytest.raises(AssertionError):
            prove_pin(sabotaged, subject, {})
