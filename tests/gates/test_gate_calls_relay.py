"""Gate calls: the relay in the guest killed in the middle of an answer, and the gateway killed behind a relay that lives. A program either
sees no break, or a reset; and what was recorded is not paid for twice.

Relay and gateway are processes of their own, the relay by the very files that an image has.
"""

import asyncio
import signal
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import WindowEntry
from gateway_app.proxy import delivery_rows, rows
from tests.gates.gateway.scene import END, Scene, asked, bills, run
from tests.integration.gateway.house import Got, until
from tests.integration.gateway.relay import Relay, relay
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import Tenant

__all__ = ["doorbells", "owner"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]

WORDS = 30


async def begun(scene: Scene, through: Relay) -> "asyncio.Task[Got]":
    """A program's stream of which the provider has sent a part."""
    asking = asyncio.create_task(asked(scene.at, through.url))
    await until(lambda: _delivered(scene))
    return asking


async def _delivered(scene: Scene) -> bool:
    lines = scene.at.bill["lines"]
    return bool(lines) and lines[0]["delivered"] > 3


async def prove_relay_killed(scene: Scene) -> dict[str, Any]:
    scene.at.act(pace_seconds=0.02, words=WORDS)
    async with relay(scene.at) as through:
        asking = await begun(scene, through)
        through.signal(signal.SIGKILL)
        got = await asking
        assert not got.whole, "the program's connection is reset"
        assert END not in got.body
        await asyncio.wait_for(until(sync_to_async(WindowEntry.objects.exists)), 10)
        again = await asked(scene.at, through.url)
    assert again.whole
    assert again.body.count(b"text_delta") == WORDS
    assert scene.at.bill["calls"] == 1, "the call was paid for twice"
    return {"had_before": got.body.count(b"text_delta"), "words": WORDS, "provider_calls": 1, "billed": await bills()}


@pytest.mark.gate(
    "calls", "The guest's relay killed in the middle of a stream: its program sees a reset, and its retry is answered by the same call"
)
def test_a_relay_killed_in_the_middle_of_a_stream(owner: Tenant, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_relay_killed(scene))

    run(owner.account, act)


async def prove_gateway_killed(scene: Scene) -> dict[str, Any]:
    """All of the answer is recorded, and its end not handed over; the program has a part of it, since it comes slowly."""
    scene.at.act(pace_seconds=0.05)
    async with relay(scene.at, silence=5) as through:
        through.line.url = scene.dying("end_committed")
        asking = asyncio.create_task(asked(scene.at, through.url))
        await scene.died()
        async with scene.successor() as url:
            through.line.url = url
            got = await asking
    assert got.whole, "the program saw a break"
    assert got.body.count(b"text_delta") == 12
    assert scene.at.bill["calls"] == 1, "the call was paid for twice"
    return {"connections_of_the_relay": through.line.connections, "provider_calls": 1}


@pytest.mark.gate(
    "calls", "A gateway killed when it has recorded an answer: behind the guest's relay the program sees no break and asks once"
)
def test_a_gateway_killed_behind_the_relay(owner: Tenant, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_gateway_killed(scene))
        assert evidence["connections_of_the_relay"] > 1, "the relay came again"

    run(owner.account, act)


async def _nothing(*_: Any, **__: Any) -> None:
    return None


def test_the_gate_fails_when_what_a_dead_relay_had_not_handed_over_is_forgotten(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    async def noted_and_left(database: Any, channel: Any, call_id: str) -> None:
        await sound(database, channel, call_id)
        await database.execute("UPDATE gateway_app_windowentry SET consumed_at = now()")

    sound = delivery_rows.undelivered
    monkeypatch.setattr(delivery_rows, "undelivered", noted_and_left)
    with pytest.raises(AssertionError):
        run(owner.account, prove_relay_killed)


def test_the_gate_fails_when_a_gateway_does_not_know_a_relays_call_again(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "of_relay", _nothing)
    with pytest.raises(AssertionError, match="saw a break"):
        run(owner.account, prove_gateway_killed)
