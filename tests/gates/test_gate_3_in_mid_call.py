"""Gate 3: agents frozen in mid-call, their machine killed and resumed. Through the relay the call goes on; without it the retry is served
from the record. The provider's bill stays as it was, and what was matched costs nothing.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.gates.gateway.agents import DIRECTLY, TOKENS, WORDS, Agent
from tests.gates.room import Room, Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

Caller = Callable[[Room], Subject]
HELD_AFTER = 8
#: Of one save. `./keepstate prove` resumes it twice; the whole suite is content with once.
RESUMES = int(os.environ.get("KEEPSTATE_RESUMES", "1"))


def freeze(subject: Subject, agents: list[Agent]) -> tuple[str, dict[str, Any]]:
    """Each agent is in the middle of an answer; the machine is saved and killed, and the provider goes on to the end without it.

    Returns the save, and the bill by then.
    """
    provider = subject.room.provider
    provider.forget()
    for agent in agents:
        provider.act(hold=True, events=HELD_AFTER, words=WORDS)
        agent.start()
        agent.has_begun()
    assert [line["delivered"] for line in provider.bill["lines"]] == [HELD_AFTER] * len(agents), "each is in the middle of its answer"
    saved = subject.save()["checkpoint_id"]
    subject.kill()
    provider.release()
    until(
        lambda: {row["state"] for row in calls(subject)[: len(agents)]} == {"complete"}, 30, "the record is completed without the machine"
    )
    return saved, provider.bill


def calls(subject: Subject) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = subject.room.client.get(f"/api/v2/sessions/{subject.id}/calls")["items"]
    return found


def meter(subject: Subject) -> dict[str, Any]:
    found: dict[str, Any] = subject.room.client.get(f"/api/sessions/{subject.id}/meter")
    return found


def wake(subject: Subject, saved: str, agents: list[Agent], bill: dict[str, Any]) -> float:
    """Returns the seconds from the answer to the resume until every agent has its whole answer."""
    subject.resume(saved)
    began = time.monotonic()
    for agent, line in zip(agents, bill["lines"], strict=True):
        agent.has_all(line)
    assert subject.room.provider.bill == bill, "the provider's bill changed: a call was paid for twice"
    return round(time.monotonic() - began, 2)


def prove_in_mid_call(subject: Subject) -> dict[str, Any]:
    before = meter(subject)
    relayed, direct = agents = [Agent(subject, "relayed"), Agent(subject, "direct", DIRECTLY)]
    saved, bill = freeze(subject, agents)
    seconds = [wake(subject, saved, agents, bill)]
    asked_directly = direct.attempts()
    assert relayed.attempts() == 1, "through the relay nobody asks again"
    assert asked_directly > 1, "without it the client does, until the gateway of the machine's new network is there"
    for _ in range(RESUMES - 1):
        subject.kill()
        seconds.append(wake(subject, saved, agents, bill))
    after = meter(subject)
    assert after["billed_calls"] - before["billed_calls"] == bill["calls"] == len(agents)
    replayed = after["replayed_tokens"] - before["replayed_tokens"]
    assert replayed == RESUMES * TOKENS, "the retry's tokens, of each resume, are shown and cost nothing"
    return {
        "provider_calls": bill["calls"],
        "tokens_of_each_call": TOKENS,
        "tokens_not_bought_again": replayed,
        "attempts_through_the_relay": 1,
        "attempts_without_it": asked_directly,
        "seconds_from_resume_to_whole_answers": seconds,
    }


@pytest.mark.gate(
    "3", "Agents frozen in mid-call and resumed: the call goes on or its retry is served from the record; nothing is billed again"
)
def test_agents_frozen_in_mid_call(gate_room: Room, caller: Caller, evidence: dict[str, Any]) -> None:
    subject = caller(gate_room)
    evidence |= prove_in_mid_call(subject)
    subject.save(stop=True)


def test_gate_3_fails_when_nothing_is_replayed(sabotaged_room: Room, caller: Caller) -> None:
    subject = caller(sabotaged_room)
    with sabotaged_room.without("nothing_is_replayed", keep=True):
        agents = [Agent(subject, "direct", DIRECTLY)]
        saved, bill = freeze(subject, agents)
        with pytest.raises(AssertionError, match=r"another answer|paid for twice"):
            wake(subject, saved, agents, bill)
    subject.save(stop=True)
