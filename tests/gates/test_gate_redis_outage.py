"""Gate redis: whatever happens to the broker, machines and work go on, the API answers, and what was accepted is done by itself."""

import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from tests.gates.fleet.room import FleetRoom, fleet
from tests.gates.room import Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(1200)]

#: How long the broker is away or full; a minute in `./keepstate prove`.
OUTAGE_SECONDS = float(os.environ.get("KEEPSTATE_OUTAGE", "8"))
#: Work that is under way when the fault comes, and ends in the midst of it.
COMMAND_SECONDS = 4
DONE_SECONDS = 60.0


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetRoom]:
    root = tmp_path_factory.mktemp("redis")
    with fleet(root, ("h-1", "h-2"), switch=root / "switch", environment={"KEEPSTATE_DEAF_SECONDS": "10"}) as opened:
        yield opened


@contextmanager
def flushed(room: FleetRoom) -> Iterator[None]:
    room.redis.flush()
    yield


@contextmanager
def restarted(room: FleetRoom) -> Iterator[None]:
    room.redis.kill()
    room.redis.start()
    yield


@contextmanager
def gone(room: FleetRoom) -> Iterator[None]:
    room.redis.kill()
    yield
    room.redis.start()


@contextmanager
def paused(room: FleetRoom) -> Iterator[None]:
    room.redis.pause()
    try:
        yield
    finally:
        room.redis.resume()


@contextmanager
def full(room: FleetRoom) -> Iterator[None]:
    with redis.Redis.from_url(room.redis.url) as client:
        kept = client.config_get("maxmemory")
        client.config_set("maxmemory", 1)
        yield
        client.config_set("maxmemory", kept["maxmemory"])


#: (what happens, whether it lasts)
FAULTS: list[tuple[Callable[[FleetRoom], Any], bool]] = [(flushed, False), (restarted, False), (gone, True), (paused, True), (full, True)]


def slow_command(subject: Subject) -> str:
    """One that runs now: its operation."""
    asked = subject.ask("exec", {"Cmd": f"sleep {COMMAND_SECONDS}; echo done", "Timeout": 60})
    until(lambda: subject.room.operation(asked)["state"] == "running", 60, "the command runs")
    return asked


def state_of(room: FleetRoom, operation: str) -> str:
    return str(room.operation(operation)["state"])


def readiness(room: FleetRoom) -> dict[str, Any]:
    with urllib.request.urlopen(f"{room.client.url}/readyz", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def during(room: FleetRoom, subjects: list[Subject], under_way: str, *, lasts: bool) -> dict[str, Any]:
    """What an owner and an operator see: the longest that each kind of request took, the work that was under way, what was accepted."""
    waits: dict[str, list[float]] = {"read": [], "accept": []}

    def timed(kind: str, act: Callable[..., str], *arguments: Any) -> str:
        began = time.monotonic()
        answer = act(*arguments)
        waits[kind].append(time.monotonic() - began)
        return answer

    accepted = [timed("accept", subject.ask, "checkpoint", {"Stop": False}) for subject in subjects]
    told, pause, ends = readiness(room), threading.Event(), time.monotonic() + (OUTAGE_SECONDS if lasts else 0)
    while time.monotonic() < ends or state_of(room, under_way) == "running":
        timed("read", subjects[0].state)
        pause.wait(0.2)
    return {
        "accepted": accepted,
        "begun_meanwhile": sum(state_of(room, one) != "queued" for one in accepted),
        "under_way": state_of(room, under_way),
        "reads": len(waits["read"]),
        "slowest_read_seconds": round(max(waits["read"], default=0.0), 2),
        "slowest_accept_seconds": round(max(waits["accept"]), 2),
        "readyz": {name: told[name] for name in ("status", "broker")},
    }


def prove(room: FleetRoom, subjects: list[Subject], fault: Callable[[FleetRoom], Any], *, lasts: bool, seconds: float) -> dict[str, Any]:
    worker, others = subjects[0], subjects[1:]
    pids, before = [subject.pids() for subject in subjects], [subject.status() for subject in others]
    under_way = slow_command(worker)
    with fault(room):
        seen = during(room, others, under_way, lasts=lasts)
    ended = time.monotonic()
    accepted = seen.pop("accepted")
    until(lambda: all(state_of(room, one) == "succeeded" for one in accepted), seconds, "what was accepted is done by itself")
    seen["done_after_seconds"] = round(time.monotonic() - ended, 2)
    after = [subject.status() for subject in others]
    seen["answers_after_seconds"] = round(time.monotonic() - ended, 2)
    assert seen["under_way"] == "succeeded", "the work that was under way came to its end"
    assert seen["reads"] > 0
    assert [subject.pids() for subject in subjects] == pids, "the same machines run"
    assert all(now[1] == was[1] and now[0] > was[0] for now, was in zip(after, before, strict=True)), "and their programs went on"
    if lasts:
        assert seen["readyz"] == {"status": "degraded", "broker": False}
        assert seen["begun_meanwhile"] == 0, "the broker was away"
    return seen


@pytest.fixture(scope="module")
def subjects(room: FleetRoom) -> list[Subject]:
    return [room.start() for _ in range(3)]


@pytest.mark.gate(
    "redis outage",
    "Redis flushed, restarted, gone, paused or full: machines and work under way go on, the API reads and accepts, and all that was "
    "accepted is done by itself",
)
@pytest.mark.parametrize(("fault", "lasts"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_the_broker_fails_and_nothing_is_lost(
    room: FleetRoom, subjects: list[Subject], fault: Callable[[FleetRoom], Any], lasts: bool, evidence: dict[str, Any]
) -> None:
    evidence |= {"fault": fault.__name__, **prove(room, subjects, fault, lasts=lasts, seconds=DONE_SECONDS)}


def test_without_the_sweepers_bell_the_gate_fails(room: FleetRoom, subjects: list[Subject]) -> None:
    with room.without("nobody_takes_up_lost_work"), pytest.raises(AssertionError, match="done by itself"):
        prove(room, subjects, gone, lasts=True, seconds=15.0)
