"""Gate 2b: a crash at any step of a save or a resume leaves the previous checkpoint byte-identical, and the work is finished by a
successor.

`./keepstate prove` kills at every step; the whole suite at every fourth one, for it has to end within a quarter of an hour.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.gates.room import Room, Subject
from tests.support.waiting import until
from workers.crash import RESUME_STEPS, SAVE_STEPS

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(120)]


EVERY = int(os.environ.get("KEEPSTATE_EVERY_STEP", "6"))


@pytest.fixture(scope="module")
def subject(gate_room: Room) -> Iterator[Subject]:
    started = gate_room.start("debian-python", Memory=256)
    yield started
    started.delete()


def prove_crash_in_save(opened: Room, subject: Subject, step: str, evidence: dict[str, Any]) -> None:
    previous = subject.save()["checkpoint_id"]
    before, (count, nonce), pids = opened.objects(), subject.status(), subject.pids()
    assert before, "there is a previous checkpoint to judge"
    opened.crash_at(step)
    operation = subject.ended(subject.ask("checkpoint", {"Stop": False}))
    assert opened.crashed(), f"a worker was killed at {step}"
    after = opened.objects()
    assert {path: after.get(path) for path in before} == before, "an object of the previous checkpoint changed or is gone"
    assert operation["state"] == "succeeded", operation["error"]
    assert subject.pids() == pids, "the machine's process is the same"
    until(lambda: subject.status()[0] > count, 20, "the machine runs on after the crash")
    valid = [row["id"] for row in subject.checkpoints() if row["state"] == "valid"]
    assert valid[1] == previous, "exactly one checkpoint was published, on top of the previous one"
    subject.kill()
    subject.resume(previous)
    assert subject.status()[1] == nonce, "the previous checkpoint resumes"
    evidence |= {"step": step, "attempts": operation["attempt"], "objects_unchanged": len(before)}


@pytest.mark.gate("2b", "A worker killed at any step of a save leaves the previous checkpoint byte-identical and the machine running")
@pytest.mark.parametrize("step", SAVE_STEPS[::EVERY])
def test_a_worker_killed_during_a_save_loses_nothing(gate_room: Room, subject: Subject, step: str, evidence: dict[str, Any]) -> None:
    prove_crash_in_save(gate_room, subject, step, evidence)


@pytest.mark.gate("2b", "A worker killed at any step of a resume leaves no second machine, and the session resumes")
@pytest.mark.parametrize("step", RESUME_STEPS[::EVERY])
def test_a_worker_killed_during_a_resume_loses_nothing(gate_room: Room, subject: Subject, step: str, evidence: dict[str, Any]) -> None:
    subject.save()
    _, nonce = subject.status()
    subject.kill()
    if step == "verified":
        gate_room.forget_cache()  # only a resume from the store passes this step
    gate_room.crash_at(step)
    operation = subject.ended(subject.ask("resume", {}))
    assert gate_room.crashed(), f"a worker was killed at {step}"
    assert operation["state"] == "succeeded", operation["error"]
    assert len(subject.pids()) == 1
    assert subject.status()[1] == nonce
    evidence |= {"step": step, "attempts": operation["attempt"]}


@pytest.mark.long
def test_gate_2b_fails_when_nobody_takes_up_lost_work(sabotaged_room: Room) -> None:
    with sabotaged_room.without("nobody_takes_up_lost_work"):
        subject = sabotaged_room.start()
        hurried = replace(sabotaged_room, client=replace(sabotaged_room.client, wait_seconds=10))
        with pytest.raises(TimeoutError):
            prove_crash_in_save(hurried, Subject(hurried, subject.id), "stopped", {})
