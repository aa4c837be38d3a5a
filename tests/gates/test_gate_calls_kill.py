"""Gate calls: a gateway killed with SIGKILL at any step of a call. What was recorded whole is never paid for twice, what was not recorded
whole is never replayed, and no call stays in flight.

The gateway is a process of its own; the provider and its bill outlive it.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from gateway_app.proxy import delivery_rows, rows
from gateway_app.proxy.answer import Frame
from gateway_app.services import open_calls
from gateway_app.states import CallState
from tests.gates.gateway.scene import END, Scene, asked, bills, calls, relayed, run
from tests.integration.gateway.house import Got, until
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import Tenant

__all__ = ["doorbells", "owner"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]


@dataclass(frozen=True)
class Step:
    """`sent`: the provider has the request; `row`: what becomes of the call's row, None if there is none."""

    name: str
    sent: bool
    row: CallState | None
    after_events: int | None = None  # killed from outside, once the provider has sent so many

    @property
    def recorded(self) -> bool:
        return self.row == CallState.COMPLETE


STEPS = (
    Step("before_the_row", sent=False, row=None),
    Step("row_committed", sent=False, row=CallState.UNKNOWN),
    Step("sent", sent=True, row=CallState.UNKNOWN, after_events=0),
    Step("first_piece", sent=True, row=CallState.UNKNOWN, after_events=4),
    Step("before_the_end", sent=True, row=CallState.UNKNOWN),
    Step("end_committed", sent=True, row=CallState.COMPLETE),
)


async def killed(scene: Scene, step: Step, relay: str = "") -> Got:
    """The call of a machine whose gateway dies at the step: what its caller has of it."""
    if step.after_events is not None:
        scene.at.act(cut="hang", events=step.after_events)
    asking = asyncio.create_task(asked(scene.at, scene.dying(step.name), relay=relay))
    if step.after_events is not None:
        await until(lambda: _delivered(scene, step.after_events or 0))
        scene.kill()
    got = await asking
    await scene.died()
    assert scene.at.bill["calls"] == int(step.sent), "the provider has heard of the call if it was sent, and only then"
    assert not got.whole, "the connection broke"
    assert END not in got.body, "the end of the answer was held back"
    return got


async def _delivered(scene: Scene, events: int) -> bool:
    lines = scene.at.bill["lines"]
    return bool(lines) and lines[0]["delivered"] >= events


async def judge(scene: Scene, step: Step) -> dict[str, Any]:
    """After the retry has been answered."""
    known, billed, provider = await calls(), await bills(), scene.at.bill
    assert [state for state, _ in known if state == CallState.OPEN] == [], "a call is in flight for ever"
    assert provider["calls"] == int(step.sent) + int(not step.recorded), "what was recorded whole was paid for twice"
    whole = [tokens for state, tokens in known if state == CallState.COMPLETE]
    assert len(whole) == 1, "one call is recorded whole"
    assert [tokens for state, tokens in known if state != CallState.COMPLETE] == ([None] if step.row == CallState.UNKNOWN else [])
    assert sorted(billed, key=str) == sorted([tokens for _, tokens in known], key=str), (
        "one line of the bill for each call, unknown where it is"
    )
    assert len(billed) >= provider["calls"], "no call of the provider's bill is missing"
    return {"step": step.name, "provider_calls": provider["calls"], "billed": len(billed), "unknown": billed.count(None)}


async def prove_program(scene: Scene, step: Step) -> dict[str, Any]:
    await killed(scene, step)
    async with scene.successor() as url:
        again = await asked(scene.at, url)
    assert again.whole
    assert END in again.body
    assert ("x-keepstate-replayed" in again.headers) == step.recorded, "only what was recorded whole is replayed"
    return await judge(scene, step)


async def prove_relay(scene: Scene, step: Step) -> dict[str, Any]:
    before = relayed(await killed(scene, step, "r1")).data
    async with scene.successor() as url:
        went_on = relayed(await asked(scene.at, url, relay="r1", offset=len(before)))
        if step.row == CallState.UNKNOWN:
            assert went_on.end == Frame.CUT, "what did not end is not ended cleanly"
            assert scene.at.bill["calls"] == int(step.sent), "the relay's going on sends nothing again"
            before, went_on = b"", relayed(await asked(scene.at, url, relay="r2"))  # the program saw the break, and asks again
    assert went_on.end == Frame.END
    assert (before + went_on.data).count(b"text_delta") == 12, "every word once"
    return await judge(scene, step)


@pytest.mark.gate("calls", "A gateway killed at any step of a program's call: its retry is answered, and paid for once if it was recorded")
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_gateway_killed_in_a_programs_call(owner: Tenant, step: Step, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_program(scene, step))

    run(owner.account, act)


@pytest.mark.gate(
    "calls", "A gateway killed at any step of a relay's call: the relay goes on in the recorded answer, or is cut; nothing is sent twice"
)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_gateway_killed_in_a_relays_call(owner: Tenant, step: Step, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_relay(scene, step))

    run(owner.account, act)


async def prove_replay(scene: Scene, step: str, relay: str) -> dict[str, Any]:
    """A call that is recorded whole; its machine is resumed from before it, asks again, and the gateway dies while it replays."""
    tick = await scene.tick()
    first = await asked(scene.at, scene.at.url)
    assert first.whole
    await scene.goes_on(tick)
    await asked(scene.at, scene.dying(step, epoch=2), relay=relay)
    await scene.died()
    async with scene.successor(epoch=2) as url:
        again = await asked(scene.at, url, relay=relay)
        assert (relayed(again).data if relay else again.body) == first.body, "the retry gets the recorded answer"
        assert scene.at.bill["calls"] == 1, "what was recorded whole was paid for twice"
        twice = await asked(scene.at, url)
        assert "x-keepstate-replayed" not in twice.headers, "once in an epoch"
    return {"step": step, "relay": bool(relay), "provider_calls": scene.at.bill["calls"]}


@pytest.mark.gate("calls", "A gateway killed while it replays: the retry is replayed, once in the epoch, and nothing is paid for again")
@pytest.mark.parametrize(("step", "relay"), [("taken_from_window", ""), ("taken_from_window", "r2"), ("replay_in_ledger", "")])
def test_a_gateway_killed_in_a_replay(owner: Tenant, step: str, relay: str, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_replay(scene, step, relay))

    run(owner.account, act)


async def _nothing(*_: Any, **__: Any) -> None:
    return None


def test_the_gate_fails_when_nobody_takes_up_what_the_dead_gateway_recorded(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_rows, "take_up", _nothing)
    with pytest.raises(AssertionError, match="only what was recorded whole"):
        run(owner.account, lambda scene: prove_program(scene, STEPS[-1]))


def test_the_gate_fails_when_nobody_ends_the_dead_gateways_calls(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_calls, "end_silent", lambda: 0)
    with pytest.raises(AssertionError, match="in flight for ever"):
        run(owner.account, lambda scene: prove_program(scene, STEPS[1]))


def test_the_gate_fails_when_a_relay_that_goes_on_is_answered_by_another_call(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "of_relay", _nothing)
    with pytest.raises(AssertionError):
        run(owner.account, lambda scene: prove_relay(scene, STEPS[-1]))
