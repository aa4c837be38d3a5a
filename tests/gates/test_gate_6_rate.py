"""Gate 6, its short form: durability as a rate over fresh machines. `./keepstate bench rate` is the long one.

Three machines by `./keepstate prove`; one in the whole suite.
"""

import os
from typing import Any

import pytest

from tests.bench.wilson import wilson
from tests.gates.room import Room

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(400)]
CYCLES = int(os.environ.get("KEEPSTATE_REPEATS", "1"))


def survives(opened: Room) -> bool:
    """A fresh machine, saved once, killed, resumed: its program is the same and has lost nothing that was saved."""
    subject = opened.start()
    subject.save()
    at_save, nonce = subject.status()
    subject.kill()
    subject.resume()
    count, after = subject.status()
    subject.delete()
    return after == nonce and count > 0 and at_save > 0


def prove_rate(opened: Room, cycles: int, evidence: dict[str, Any]) -> None:
    successes = sum(survives(opened) for _ in range(cycles))
    low, high = wilson(successes, cycles)
    evidence |= {"cycles": cycles, "successes": successes, "wilson_95": [round(low, 4), round(high, 4)]}
    assert successes == cycles


@pytest.mark.gate("6", "Every one of a few fresh machines survives kill -9: the rate with its Wilson interval (bench rate: 200)")
def test_every_fresh_machine_survives_its_kill(gate_room: Room, evidence: dict[str, Any]) -> None:
    prove_rate(gate_room, CYCLES, evidence)


def test_gate_6_fails_when_a_resume_boots_afresh(sabotaged_room: Room) -> None:
    with sabotaged_room.without("resume_boots_afresh"), pytest.raises(AssertionError):
        prove_rate(sabotaged_room, 1, {})


def test_the_interval_is_the_published_one() -> None:
    assert [round(100 * bound, 1) for bound in wilson(25, 25)] == [86.7, 100.0]
