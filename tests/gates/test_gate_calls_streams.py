"""Gate calls: whoever goes away in the middle of a stream. A client that leaves does not stop the record; a provider that breaks off is a
reset for the client, never a clean end, is never replayed, and what it billed is not known.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway_app.proxy import answer, call_rows, delivery
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.gateway import Gateway
from gateway_app.states import CallState
from tests.gates.gateway.scene import END, Scene, asked, bills, calls, run
from tests.integration.gateway.house import until
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import Tenant

__all__ = ["doorbells", "owner"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]

WORDS = 3
EVENTS = WORDS + 6


async def prove_provider_gone(scene: Scene, how: str) -> dict[str, Any]:
    """At each event of a stream; then each of those requests is asked again in another epoch."""
    tick = await scene.tick()
    for events in range(1, EVENTS):
        scene.at.act(cut=how, events=events, words=WORDS)
        got = await asked(scene.at, scene.at.url)
        assert not got.whole, f"a break after {events} events came as a clean end"
        assert END not in got.body
    assert await calls() == [(CallState.CUT, None)] * (EVENTS - 1), "usage is unknown where it is not known"
    assert await bills() == [None] * (EVENTS - 1), "each is in the ledger, its tokens unknown"
    await scene.goes_on(tick)
    again = await asked(scene.at, await scene.at.moved(epoch=2))
    assert "x-keepstate-replayed" not in again.headers, "what broke was replayed"
    assert scene.at.bill["calls"] == EVENTS
    return {"how": how, "breaks": EVENTS - 1, "resets": EVENTS - 1, "replayed": 0}


@pytest.mark.gate(
    "calls", "A provider that breaks off at any event of a stream is a reset for the client, is never replayed, and its usage is unknown"
)
@pytest.mark.parametrize("how", ["reset", "close", "end", "error"])
def test_a_provider_gone_at_any_event(owner: Tenant, how: str, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_provider_gone(scene, how))

    run(owner.account, act)


async def prove_client_gone(scene: Scene) -> dict[str, Any]:
    scene.at.act(pace_seconds=0.01, words=20)
    asking = asyncio.create_task(asked(scene.at, scene.at.url))
    await until(lambda: _delivered(scene))
    asking.cancel()
    await scene.at.gate.drain(20)
    assert await calls() == [(CallState.COMPLETE, 20)], "the record is not complete"
    again = await asked(scene.at, scene.at.url)
    assert (again.whole, again.body.count(b"text_delta"), scene.at.bill["calls"]) == (True, 20, 1)
    return {"tokens": await bills(), "provider_calls": 1}


async def _delivered(scene: Scene) -> bool:
    lines = scene.at.bill["lines"]
    return bool(lines) and lines[0]["delivered"] > 3


@pytest.mark.gate("calls", "A client that leaves in the middle of a stream: the record is completed, and its retry is answered by it")
def test_a_client_gone_in_the_middle(owner: Tenant, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_client_gone(scene))

    run(owner.account, act)


def test_the_gate_fails_when_a_break_is_ended_cleanly(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "abort", lambda transport: None)
    monkeypatch.setattr(answer, "ends_by_reset", lambda transport, yes: None)
    with pytest.raises(AssertionError, match="clean end"):
        run(owner.account, lambda scene: prove_provider_gone(scene, "reset"))


def test_the_gate_fails_when_a_stream_without_its_end_counts_as_whole(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = call_rows.end_call

    async def whole(database: Any, channel: Channel, call: Any, ended: call_rows.Ended, *rest: Any) -> bool:
        return await sound(database, channel, call, replace(ended, state=CallState.COMPLETE), *rest)

    monkeypatch.setattr(call_rows, "end_call", whole)
    with pytest.raises(AssertionError, match="clean end"):  # the next equal request gets the part as if it were the answer
        run(owner.account, lambda scene: prove_provider_gone(scene, "end"))


def test_the_gate_fails_when_a_client_that_leaves_takes_the_provider_with_it(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = delivery.Deliveries.over

    async def act(scene: Scene) -> None:
        gate: Gateway = scene.at.gate

        def stop(self: delivery.Deliveries, who: Channel, of: Any, *, whole: bool) -> None:
            sound(self, who, of, whole=whole)
            for task in gate._tasks:
                task.cancel()

        monkeypatch.setattr(delivery.Deliveries, "over", stop)
        await prove_client_gone(scene)

    with pytest.raises(AssertionError, match="not complete"):
        run(owner.account, act)
