"""Gate 2a: the daemon carries sessions across kill and resume, many times running, and is itself killed on the way.

Twenty times by `./keepstate prove`; four in the whole suite, which has to end within a quarter of an hour.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gates.room import Room, Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.timeout(400)]
CYCLES = int(os.environ.get("KEEPSTATE_CYCLES", "4"))


def prove_cycles(opened: Room, subject: Subject, cycles: int, evidence: dict[str, Any]) -> None:
    """Each cycle: save, kill the hypervisor (and each fourth time the worker that could have kept state), resume.

    The count never falls behind its save.
    """
    nonce, killed, resumed_seconds = subject.status()[1], 0, []
    for cycle in range(cycles):
        at_save, _ = subject.status()
        subject.save()
        subject.kill()
        if cycle % 4 == 3:
            killed += opened.kill_workers("vm")
        resumed_seconds.append(subject.resume()["answered_seconds"])
        count, after = subject.status()
        assert after == nonce, f"cycle {cycle}: another program runs than the one that was saved"
        assert count >= at_save, f"cycle {cycle}: the count fell from {at_save} to {count}"
    evidence |= {"cycles": cycles, "worker_processes_killed": killed, "resume_seconds": sorted(resumed_seconds)}
    assert killed > 0, "the daemon was killed on the way"


@pytest.fixture(scope="module")
def subject(gate_room: Room) -> Iterator[Subject]:
    started = gate_room.start()
    yield started
    started.delete()


@pytest.mark.long
@pytest.mark.gate(
    "2a", f"A session is carried across kill -9 of its hypervisor {CYCLES} times running, the worker killed every fourth time"
)
def test_many_cycles_running_lose_nothing(gate_room: Room, subject: Subject, evidence: dict[str, Any]) -> None:
    prove_cycles(gate_room, subject, CYCLES, evidence)


@pytest.mark.gate("2a", "A machine outlives the kill -9 of every worker, and is adopted: the same process answers afterwards")
def test_a_machine_outlives_its_workers_and_is_adopted(gate_room: Room, subject: Subject, evidence: dict[str, Any]) -> None:
    before = subject.pids()
    killed = gate_room.kill_workers("vm") + gate_room.kill_workers("io")
    count, nonce = subject.status()
    assert killed >= 2
    assert subject.pids() == before
    until(lambda: subject.status()[0] > count, 60, "the program counts on")
    assert subject.status()[1] == nonce
    evidence |= {"worker_processes_killed": killed, "hypervisor_pid_same": True}


@pytest.mark.long
def test_gate_2a_fails_when_the_newest_save_is_not_what_resumes(sabotaged_room: Room) -> None:
    with sabotaged_room.without("resumes_the_first_checkpoint") as sabotaged:
        subject = sabotaged.start()
        with pytest.raises(AssertionError):
            prove_cycles(sabotaged, subject, 8, {})
