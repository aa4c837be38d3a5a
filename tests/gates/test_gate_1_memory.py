"""Gate 1: memory survives kill -9 of the hypervisor.

Three times running by `./keepstate prove`; once in the whole suite, where gate 2a does it more often.
"""

import os
from typing import Any

import pytest

from keepstate_site.demo.agent import PROGRAM, STATUS, Simulation
from tests.gates.room import Room, Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]
CYCLES = int(os.environ.get("KEEPSTATE_REPEATS", "1"))


def prove_memory(subject: Subject, evidence: dict[str, Any]) -> None:
    """Save, kill, resume: the nonce drawn at the program's start stays and its count goes on from the save."""
    counts = []
    for cycle in range(CYCLES):
        subject.save()
        at_save, nonce = subject.status()
        subject.kill()
        subject.resume()
        count, after = subject.status()
        assert after == nonce, f"cycle {cycle}: another program runs than the one that was saved"
        counts.append((at_save, count))
    evidence |= {"cycles": CYCLES, "counts_at_save_and_after": counts}


@pytest.mark.gate(
    "1", f"Memory survives kill -9 of the hypervisor: a nonce drawn at start stays and a counter goes on; times running: {CYCLES}"
)
def test_a_nonce_stays_and_a_counter_goes_on_across_kill_minus_nine(gate_room: Room, evidence: dict[str, Any]) -> None:
    subject = gate_room.start()
    prove_memory(subject, evidence)
    subject.delete()


@pytest.mark.long
@pytest.mark.gate("1", "A 48 MiB heap equals an independent simulation of it after kill -9 and resume")
def test_a_heap_equals_its_independent_simulation_after_kill_minus_nine(gate_room: Room, evidence: dict[str, Any]) -> None:
    subject = Subject(gate_room, gate_room.client.do("POST", "/api/sessions", {"Image": "debian-python", "Memory": 512})["id"])
    gate_room.client.do(
        "POST",
        f"/api/sessions/{subject.id}/exec",
        {"Argv": ["/bin/sh", "-c", 'python3 -c "$0" >/dev/null 2>&1 </dev/null &', PROGRAM], "Timeout": 20},
    )
    until(lambda: _report(subject), 60, "the agent reports")
    simulation, equal = Simulation(), []
    for _ in range(CYCLES):
        subject.save()
        subject.kill()
        subject.resume()
        step, checksum = _next_report(subject)
        equal.append((step, checksum == simulation.checksum(step)))
    evidence |= {"steps_and_equal": equal}
    assert all(same for _, same in equal)
    subject.delete()


def _next_report(subject: Subject) -> tuple[int, str]:
    seen = _report(subject)[0]
    until(lambda: _report(subject)[0] > seen, 60, "the agent reports after the resume")
    return _report(subject)


def _report(subject: Subject) -> tuple[int, str]:
    words = subject.exec(f"cat {STATUS}")["stdout"].split()
    return (int(words[0]), words[1]) if len(words) == 3 else (0, "")


@pytest.mark.long
def test_gate_1_fails_when_a_resume_boots_afresh(sabotaged_room: Room) -> None:
    with sabotaged_room.without("resume_boots_afresh"):
        subject = sabotaged_room.start()
        with pytest.raises(AssertionError, match="another program"):
            prove_memory(subject, {})
