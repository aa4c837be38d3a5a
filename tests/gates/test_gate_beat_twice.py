"""Gate beat: none, one that comes back, and two at once: what is due is done, and done once."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sessions_app.services.silence import SILENT_SECONDS
from tests.gates.fleet.room import FleetRoom, fleet
from tests.gates.room import Subject
from tests.support.receiver import Receiver, receiver
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(1200)]
TURNS = 6
SECONDS = 60.0


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetRoom]:
    root = tmp_path_factory.mktemp("beat")
    with fleet(root, ("h-1",), switch=root / "switch", environment={"KEEPSTATE_WEBHOOK_NETWORKS": "127.0.0.0/8"}) as opened:
        yield opened


@pytest.fixture
def hook(room: FleetRoom) -> Iterator[Receiver]:
    with receiver() as one:
        made = room.client.call("POST", "/api/v2/webhooks", {"url": one.url})[1]
        yield one
        room.client.call("DELETE", f"/api/v2/webhooks/{made['id']}")


def turns(room: FleetRoom, name: str, count: int, *, or_once: Callable[[], bool] = lambda: False) -> int:
    """So many turns of that name come to their end, or the other thing is so. How many did."""
    ends: list[Any] = []

    def another() -> bool:
        ((ended,),) = room.postgres.rows("SELECT finished_at FROM checkpoints_app_sweep WHERE name = %s", name)
        if ended not in ends:
            ends.append(ended)
        return len(ends) > count or or_once()

    until(another, SECONDS, f"{count} turns of {name} come to their end")
    return len(ends) - 1


def messages(hook: Receiver) -> list[str]:
    return [headers["webhook-id"] for headers, _ in list(hook.got)]


def attempts(room: FleetRoom) -> int:
    """How often a turn has taken up a message, written before it is sent: an answer that comes too late is an attempt of its own."""
    count: Any
    ((count,),) = room.postgres.rows("SELECT coalesce(sum(attempt), 0) FROM sessions_app_webhookdelivery")
    return int(count)


def prove_two(room: FleetRoom, hook: Receiver) -> dict[str, Any]:
    """Its endpoint answers only after many turns have met the messages that wait for it."""
    subject = room.start()
    hook.open.clear()
    with room.second_beat():
        operation = subject.ask("checkpoint", {"Stop": True})
        until(lambda: room.operation(operation)["state"] == "succeeded", SECONDS, "the save ends")
        until(lambda: messages(hook), SECONDS, "a message is sent")
        seen = turns(room, "sweep", TURNS, or_once=lambda: len(messages(hook)) > attempts(room))
        assert len(messages(hook)) <= attempts(room), "each attempt was sent once"
        hook.open.set()
        until(lambda: _told(hook, b"session.parked"), SECONDS, "the parking is told")
        turns(room, "webhooks", 2)
        until(lambda: len(messages(hook)) >= attempts(room), SECONDS, "what was taken up has been sent")
    row, sent = room.operation(operation), messages(hook)
    found = {"turns": seen, "sent": len(sent), "messages": len(set(sent)), "attempts": attempts(room)}
    found |= {"checkpoints": len(subject.checkpoints())}
    subject.delete()
    assert (row["state"], found["checkpoints"]) == ("succeeded", 1)
    assert found["sent"] == found["attempts"] > 0, "each attempt was sent once"
    return found


def _told(hook: Receiver, type_: bytes) -> bool:
    return any(type_ in body for _, body in list(hook.got))


@pytest.mark.gate("beat twice", "Two beats at once: every turn comes twice, and nothing that it does is done twice")
def test_two_beats_do_nothing_twice(room: FleetRoom, hook: Receiver, evidence: dict[str, Any]) -> None:
    evidence |= prove_two(room, hook)


def test_with_turns_that_are_not_safe_beside_themselves_the_gate_fails(room: FleetRoom, hook: Receiver) -> None:
    with room.without("messages_are_taken_up_by_every_turn"), pytest.raises(AssertionError, match="sent once"):
        prove_two(room, hook)


@pytest.mark.gate("beat gone", "Without a beat machines and what is asked for go on; what was lost meanwhile is done once it is back")
def test_a_beat_that_is_gone_is_missed_by_nobody_but_the_lost(room: FleetRoom, evidence: dict[str, Any]) -> None:
    heard, lost = room.start(), room.start()
    room.beat.pause()
    try:
        heard.save()
        operation = _asked_and_lost(room, lost)
        heard.save()
        heard.save()  # whoever hears has had time enough for the other
        evidence |= {"heard": len(heard.checkpoints()), "meanwhile": room.operation(operation)["state"]}
        assert evidence["meanwhile"] == "queued"
    finally:
        room.beat.resume()
    until(lambda: room.operation(operation)["state"] == "succeeded", SECONDS, "what was lost is done")
    evidence |= {"attempts": len(lost.checkpoints())}
    assert evidence["attempts"] == 1


def _asked_and_lost(room: FleetRoom, subject: Subject) -> str:
    """Accepted while the broker is away, so that no doorbell of it is ever heard. On return others are rung for again."""
    room.redis.kill()
    try:
        return subject.ask("checkpoint", {"Stop": False})
    finally:
        room.redis.start()
        time.sleep(SILENT_SECONDS + 1)  # for so long the web process, which has met the fault, rings nobody: that belongs to the fault
