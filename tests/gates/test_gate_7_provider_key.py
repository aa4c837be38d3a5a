"""Gate 7: a provider's key that a machine's calls are made with is nowhere in the machine, in nothing that is stored of it, and in nothing
that the service shows, keeps or passes on. The machine's own credential is found by the same search, so the search finds what is there.
"""

import secrets
from collections.abc import Callable
from typing import Any

import pytest

from tests.gates.gateway import search
from tests.gates.gateway.agents import Agent, bind_key
from tests.gates.room import Room, Subject

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

Caller = Callable[[Room], Subject]


def prove_key_is_nowhere(subject: Subject) -> dict[str, Any]:
    room, key = subject.room, f"sk-ant-planted-{secrets.token_hex(12)}"
    with search.broker(room.root) as broker:
        bind_key(subject, key)
        room.provider.forget()
        agent = Agent(subject, "planted")
        agent.start()
        agent.has_ended()
        assert [line["key_last4"] for line in room.provider.bill["lines"]] == [key[-4:]], "the call was made with the key"
        credential = subject.exec('printf %s "$ANTHROPIC_API_KEY"')["stdout"]
        assert credential.startswith("ks-guest-")
        save = subject.ask("checkpoint", {"Stop": False})
        assert subject.ended(save)["state"] == "succeeded"
        (pid,) = subject.pids()
        words = [key, credential]
        memory_bytes, memory = search.in_memory(pid, words)
        stored = search.in_stored_objects(room.root, words)
        told = broker.hits([*words, save])
    file_bytes, files = search.in_files(search.directories(room.root), words)
    processes, shown = search.in_environments(room.root, words)
    assert memory[credential], "the search finds in the machine's memory what is there"
    assert stored["hits"][credential], "the search finds in stored objects what is there"
    assert files[credential], "the search finds in the host's files what is there"
    assert any(line.startswith("[[") for line in told[save]), "the search finds in the broker's messages what is there"
    assert processes > 5, "the stack's processes were searched"
    assert any("/log" in path for path in map(str, room.root.rglob("*.log"))), "there are logs"
    found = {"memory": memory[key], "stored": stored["hits"][key], "broker": told[key], "files": files[key], "environments": shown[key]}
    assert not any(found.values()), f"the provider's key is found: { ({where: hits for where, hits in found.items() if hits}) }"
    return {
        "memory_bytes": memory_bytes,
        "stored_objects": stored["objects"],
        "stored_bytes_opened": stored["bytes"],
        "file_bytes": file_bytes,
        "processes": processes,
        "commands_of_the_broker": len(broker.said),
        "hits_of_the_key": 0,
        "hits_of_the_machines_credential": {"memory": len(memory[credential]), "stored": len(stored["hits"][credential])},
    }


@pytest.mark.gate(
    "7", "A provider's key is in no machine's memory or disk, no stored object, log, environment, message or file of the service"
)
def test_the_providers_key_is_nowhere(gate_room: Room, caller: Caller, evidence: dict[str, Any]) -> None:
    subject = caller(gate_room)
    evidence |= prove_key_is_nowhere(subject)
    subject.save(stop=True)


def test_gate_7_fails_when_provider_keys_come_back(sabotaged_room: Room, caller: Caller) -> None:
    subject = caller(sabotaged_room)
    with sabotaged_room.without("provider_keys_come_back", keep=True), pytest.raises(AssertionError, match="key is found"):
        prove_key_is_nowhere(subject)
    subject.save(stop=True)
