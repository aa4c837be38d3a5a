"""Gate upgrade: a stack of the release before is stopped while its machines run, and this one starts on what it has left."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from keepstate_site.client import Client, Refused
from keepstate_site.demo.process import machine_pids
from tests.gates import released
from tests.gates.gateway import agents
from tests.gates.gateway.agents import Agent
from tests.gates.gateway.beside import provider
from tests.gates.room import PROVIDERS, Room, Subject, networks_removed, room, stack_environment
from tests.gates.test_gate_3_in_mid_call import freeze
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(1200)]


@dataclass
class Left:
    """A session as the release before left it."""

    id: str
    count: int
    nonce: str
    pids: list[int] = field(default_factory=list)
    saves: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Before:
    running: list[Left]  # saved once, machine runs; the second is the sabotage's
    parked: Left
    waited_for: Left  # parked, and its resume was asked for when no worker was left
    resume_id: str
    caller_id: str  # killed in the middle of a model call, whose record is whole
    saved: str
    bill: dict[str, Any]


def left(subject: Subject, *, stop: bool = False) -> Left:
    count, nonce = subject.status()
    subject.save(stop=stop)
    return Left(subject.id, count, nonce, subject.pids(), subject.checkpoints())


def lived_in(old: Room) -> Before:
    running = [left(old.start()) for _ in range(2)]
    parked, waited_for = left(old.start(), stop=True), left(old.start(), stop=True)
    caller = agents.machine(old)
    saved, bill = freeze(caller, [Agent(caller, "relayed")])
    workers = old.worker_pids("vm")
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    resume_id = Subject(old, waited_for.id).ask("resume", {})
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    return Before(running, parked, waited_for, resume_id, caller.id, saved, bill)


@dataclass
class Upgraded:
    room: Room
    before: Before


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    root = tmp_path_factory.mktemp("upgrade")
    release = released.tree(root / "release")
    with networks_removed(root), machines_ended(root / "var"):
        with provider() as beside:
            env = {**stack_environment(root, None), "KEEPSTATE_STATIC": str(root / "static"), **dict.fromkeys(PROVIDERS, beside.url)}
            with released.stack(release, root / "var", env) as stack:
                client = Client(stack.url, stack.token, poll_share=0.25)
                before = lived_in(Room(client, stack.root, root / "crash", root / "bin", beside))
        with room(root, switch=root / "switch") as opened:  # with another provider: whatever is asked of that one is asked anew
            yield Upgraded(opened, before)


@contextmanager
def machines_ended(var: Path) -> Iterator[None]:
    """Those too that a stack left which the next one never came to look after."""
    try:
        yield
    finally:
        for machine in (var / "host").glob("*/machines/*"):
            for pid in machine_pids(var, machine.name.split(".")[0]):
                os.kill(pid, signal.SIGKILL)


def prove_running(opened: Room, was: Left) -> dict[str, Any]:
    """It is adopted: the same process answers; and its next save holds only what was written since the last one of the release before."""
    subject = Subject(opened, was.id)
    assert was.pids, "a machine ran"
    assert subject.pids() == was.pids, "the machine outlived the upgrade"
    assert subject.state() == "running"
    count, nonce = subject.status()
    assert nonce == was.nonce
    assert count > was.count
    subject.save()
    newest, first = subject.checkpoints()[0], was.saves[0]
    assert newest["parent_checkpoint_id"] == first["id"]
    assert newest["unique_bytes"] < first["unique_bytes"] / 2, "it stored again what the release before had stored"
    subject.kill()
    subject.resume()
    assert subject.status()[1] == was.nonce
    return {"stored_before": first["unique_bytes"], "stored_after": newest["unique_bytes"], "counted_on": count - was.count}


def goes_on(opened: Room, was: Left) -> int:
    count, nonce = Subject(opened, was.id).status()
    assert nonce == was.nonce
    assert count >= was.count
    return count - was.count


@pytest.mark.gate("upgrade", "Machines of the release before run on through an upgrade, are adopted, and their saves go on where they were")
def test_a_running_machine_is_adopted_and_its_saves_go_on(upgraded: Upgraded, evidence: dict[str, Any]) -> None:
    evidence |= {"release": released.COMMIT, **prove_running(upgraded.room, upgraded.before.running[0])}


@pytest.mark.gate("upgrade", "A checkpoint of the release before resumes after an upgrade")
def test_an_old_checkpoint_resumes(upgraded: Upgraded, evidence: dict[str, Any]) -> None:
    resumed = Subject(upgraded.room, upgraded.before.parked.id).resume()
    evidence |= {"counted_on": goes_on(upgraded.room, upgraded.before.parked), "answered_seconds": resumed["answered_seconds"]}


@pytest.mark.gate("upgrade", "What was asked of the release before, and not begun, is done after an upgrade")
def test_an_operation_that_waited_is_done(upgraded: Upgraded, evidence: dict[str, Any]) -> None:
    asked = upgraded.before.resume_id
    until(lambda: upgraded.room.operation(asked)["state"] not in ("queued", "running"), 120, "the resume has ended")
    assert upgraded.room.operation(asked)["state"] == "succeeded", upgraded.room.operation(asked)
    evidence |= {"counted_on": goes_on(upgraded.room, upgraded.before.waited_for)}


@pytest.mark.gate("upgrade", "A model call that was recorded before an upgrade is read to its end after it, and is not paid for again")
def test_a_recorded_call_goes_on(upgraded: Upgraded, evidence: dict[str, Any]) -> None:
    before = upgraded.before
    subject = Subject(upgraded.room, before.caller_id)
    agent = Agent(subject, "relayed")
    subject.resume(before.saved)
    (line,) = before.bill["lines"]
    agent.has_all(line)
    assert agent.attempts() == 1
    assert upgraded.room.provider.bill["calls"] == 0, "the call was paid for again"
    evidence |= {"provider_calls": before.bill["calls"], "provider_calls_after_the_upgrade": 0}


def test_gate_upgrade_fails_when_the_notes_of_the_release_before_are_not_understood(upgraded: Upgraded) -> None:
    with upgraded.room.without("records_are_not_understood", keep=True), pytest.raises((AssertionError, Refused)):
        prove_running(upgraded.room, upgraded.before.running[1])
