"""Gate 2b: a checkpoint is its stored objects and nothing else; a damaged one is refused before a hypervisor starts."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keepstate_site.client import Refused
from tests.gates.room import Room, Subject
from tests.support.networks import remove_networks
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]
INSTANCE = "instance"


@pytest.mark.gate(
    "2b", "A checkpoint is portable: the host's own files gutted and its workers killed, packs and manifest alone revive the session"
)
def test_a_gutted_host_revives_a_session_from_the_store_alone(gate_room: Room, evidence: dict[str, Any]) -> None:
    subject = gate_room.start("debian-python", Memory=256)
    subject.exec("echo kept > /root/kept")
    _, nonce = subject.status()
    subject.save(stop=True)
    gut(gate_room)
    answer = subject.resume()
    assert answer["images_from"] == "host"
    assert subject.status()[1] == nonce
    assert subject.exec("cat /root/kept")["stdout"] == "kept\n"
    evidence |= {"answered_seconds": answer["answered_seconds"], "objects": len(gate_room.objects())}
    subject.delete()


def gut(opened: Room) -> None:
    """Remove everything that the host keeps beside the store, as if it were another host, and kill its workers and machines."""
    opened.kill_machines()
    remove_networks(opened.root)
    host = next((opened.root / "host").glob("*"))
    until(lambda: _is_removed(host), 30, "nothing of the host is left")
    assert opened.kill_workers("vm") > 0


def _is_removed(directory: Path) -> bool:
    """Workers that look after their host write in it meanwhile, so a removal may find it in use. What is left is the name under which they
    have it: another installation would be refused the host's id while these are heard of.
    """
    for entry in directory.iterdir():
        if entry.name == INSTANCE:
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    return [entry.name for entry in directory.iterdir()] == [INSTANCE]


@pytest.fixture(scope="module")
def subject(gate_room: Room) -> Iterator[Subject]:
    """One machine for the gates that leave it running; it is started after the host was gutted, which ends every machine."""
    started = gate_room.start()
    yield started
    started.delete()


def prove_refusal(opened: Room, subject: Subject, damaged: Path, evidence: dict[str, Any]) -> None:
    """One flipped bit of a stored object: refused by name, no hypervisor, the previous checkpoint resumes."""
    opened.forget_cache()
    flip(damaged)
    with pytest.raises(Refused) as refused:
        subject.resume()
    assert refused.value.code == "ks_integrity"
    assert not subject.pids(), "no hypervisor was started"
    assert subject.state() == "parked"
    evidence |= {"object": damaged.parent.parent.name, "bytes": damaged.stat().st_size, "message": str(refused.value)}


@pytest.mark.gate("2b", "One flipped bit of a stored pack or manifest is refused and no hypervisor starts; the previous checkpoint resumes")
@pytest.mark.parametrize("kind", ["packs", "manifests"])
def test_a_flipped_bit_is_refused_and_no_hypervisor_starts(gate_room: Room, subject: Subject, kind: str, evidence: dict[str, Any]) -> None:
    previous, (_, nonce) = subject.save()["checkpoint_id"], subject.status()
    before = set(gate_room.objects())
    subject.save(stop=True)
    new = [path for path in set(gate_room.objects()) - before if kind in path.parts]
    assert new, f"the save wrote {kind}"
    prove_refusal(gate_room, subject, new[0], evidence)
    assert subject.checkpoints()[0]["state"] == "corrupt"
    subject.resume(previous)
    assert subject.status()[1] == nonce


def prove_healing(opened: Room, subject: Subject, evidence: dict[str, Any]) -> None:
    """A bit flipped in a cached image: it is dropped and assembled anew, so what resumes is what was saved."""
    _, nonce = subject.status()
    subject.save(stop=True)
    images = [path for path in (opened.root / "host").glob("*/cache/*/*") if path.suffix == "" and path.stat().st_blocks]
    assert images, "the save left images in the cache"
    for image in images:
        flip(image)
    answer = subject.resume()
    evidence |= {"images_flipped": len(images), "images_from": answer["images_from"]}
    assert answer["images_from"] == "host", "a damaged image was used"
    assert subject.status()[1] == nonce


@pytest.mark.gate("2b", "A damaged image in the host's cache is never used: it is dropped and assembled anew from verified units")
def test_a_damaged_cached_image_is_not_used(gate_room: Room, subject: Subject, evidence: dict[str, Any]) -> None:
    prove_healing(gate_room, subject, evidence)


def test_the_cache_gate_fails_when_cached_images_are_believed(sabotaged_room: Room) -> None:
    with sabotaged_room.without("cached_images_are_believed") as sabotaged:
        subject = sabotaged.start()
        with pytest.raises((AssertionError, Refused)):
            prove_healing(sabotaged, subject, {})


def flip(path: Path) -> None:
    """Invert one bit amid the file's data."""
    with path.open("r+b") as file:
        middle = path.stat().st_size // 2
        start = _data_at(file.fileno(), middle)
        file.seek(start)
        byte = file.read(1)[0]
        file.seek(start)
        file.write(bytes([byte ^ 1]))


def _data_at(fd: int, offset: int) -> int:
    import os

    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError:  # a sparse file with nothing behind its middle
        return os.lseek(fd, 0, os.SEEK_DATA)
