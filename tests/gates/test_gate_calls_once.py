"""Gate calls: equal prompts on purpose are as many calls, before a resume and after it; what a resume repeats is replayed once in each
epoch and in each fork, and in nobody else's session.
"""

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app.calls import window as windows
from gateway_app.models import KeyBinding, ProviderKey
from gateway_app.proxy import channel, rows
from gateway_app.proxy.channel import Channel
from gateway_app.services import fork as forks
from gateway_app.services import window
from sessions_app.models import Account, Session
from sessions_app.services import steps
from tests.gates.gateway.scene import Scene, goes_on, run
from tests.integration.gateway.house import BODY, PROVIDER_KEY, SECRET, Got
from tests.support.fixtures import doorbells, owner, stranger
from tests.support.fleet import Tenant, checkpoint_row, session_row

__all__ = ["doorbells", "owner", "stranger"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]

COUNT = 5
ANOTHER = {**BODY, "system": "another prompt"}


async def equal(scene: Scene, url: str, count: int, credential: str = "") -> int:
    """So many equal prompts at once. How many of them were replayed; all are answered."""
    given = {"x_api_key": credential} if credential else {}
    answers: list[Got] = await asyncio.gather(*[scene.at.ask(url=url, **given) for _ in range(count)])
    assert all(one.status == 200 and one.whole for one in answers)
    return sum("x-keepstate-replayed" in one.headers for one in answers)


def sent(scene: Scene) -> int:
    return int(scene.at.bill["calls"])


async def prove_once(scene: Scene) -> dict[str, Any]:
    at = scene.at
    assert await equal(scene, at.url, COUNT) == 0
    assert sent(scene) == COUNT, "equal prompts on purpose are as many calls"
    await at.ask(ANOTHER)  # the machine went on from them: they are behind it
    tick = await scene.tick()
    assert await equal(scene, at.url, 2) == 0  # and after the save, again
    before = sent(scene)
    await scene.goes_on(tick)
    first = await equal(scene, await at.moved(epoch=2), COUNT)
    assert first == 2, "what the machine repeats is replayed, each once"
    assert sent(scene) - before == COUNT - first, "the others are calls of their own"
    before = sent(scene)
    await scene.goes_on(tick)
    second = await equal(scene, await at.moved(epoch=3), COUNT + 2)
    assert second == COUNT, "a second resume of the same save has a window of its own, with what the first one did"
    assert sent(scene) - before == 2
    return {"equal_prompts": COUNT, "replayed_in_epochs": [first, second], "provider_calls": sent(scene)}


@pytest.mark.gate(
    "calls", "Equal prompts on purpose are as many calls, before and after a resume; what a resume repeats is replayed once in each"
)
def test_equal_prompts_on_purpose(owner: Tenant, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_once(scene))

    run(owner.account, act)


async def prove_apart(scene: Scene, strange: Account) -> dict[str, Any]:
    """Two forks of one save at which an answer lay unread, and a stranger with the same prompt."""
    at = scene.at
    await at.ask()
    tick, replayed = await scene.tick(), []
    for who in [await sync_to_async(_fork)(at.session, tick) for _ in range(2)]:
        before = sent(scene)
        replayed.append(await equal(scene, await at.door(who), 2))
        assert sent(scene) - before == 1
    assert replayed == [1, 1], "each fork replays on its own, once"
    outsider, before = await sync_to_async(_stranger)(strange), sent(scene)
    theirs = channel.credential(outsider.session_id, SECRET)
    assert await equal(scene, await at.door(outsider), 1, theirs) == 0, "an answer crossed tenants"
    assert sent(scene) - before == 1
    refused = await at.ask(url=await at.door(outsider))
    assert refused.status == 401, "a credential of another tenant's session opens nothing"
    return {"replayed_in_forks": replayed, "replayed_to_the_stranger": 0}


def _fork(parent: Session, tick: int) -> Channel:
    point = checkpoint_row(parent, watermarks={"calls": tick}).id
    child = session_row(parent.account, epoch=0, parent_id=parent.id, fork_checkpoint_id=point, budget_tokens=1_000_000)
    forks.pass_on(parent, child, point=steps.saved_point.call(parent, point), steer=None)
    goes_on(child, tick, source_epoch=0)
    return Channel(child.account_id, child.id, child.epoch, frozenset({child.id, parent.id}))


def _stranger(account: Account) -> Channel:
    """Another tenant's session, with a key of its own."""
    session = session_row(account, budget_tokens=1_000_000)
    sealed = steps.seal.call(account.id, PROVIDER_KEY.encode())
    key = ProviderKey.objects.create(account=account, provider="anthropic", last4=PROVIDER_KEY[-4:], secret=sealed)
    KeyBinding.objects.create(session=session, provider="anthropic", key=key)
    return Channel(account.id, session.id, session.epoch, frozenset({session.id}))


@pytest.mark.gate("calls", "Two forks of one save each replay on their own, once; nothing crosses tenants")
def test_forks_and_strangers(owner: Tenant, stranger: Tenant, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_apart(scene, stranger.account))

    run(owner.account, act)


def test_the_gate_fails_when_an_answer_is_served_as_often_as_it_is_asked_for(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_TAKE", rows._TAKE.replace("consumed_at = now()", "consumed_at = NULL"))
    with pytest.raises(AssertionError, match=r"each once|a window of its own"):  # a delivery that was told meanwhile closes an entry too
        run(owner.account, prove_once)


def test_the_gate_fails_when_a_window_has_all_that_was_recorded(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_why", lambda call, watermark, last_start: windows.Why.LOST)
    monkeypatch.setattr(window, "_last_start", lambda on_line: 0)
    with pytest.raises(AssertionError, match="each once"):
        run(owner.account, prove_once)


def test_the_gate_fails_when_a_record_is_found_by_its_request_alone(
    owner: Tenant, stranger: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    everyone = rows._TAKE.replace(
        "entry.session_id = %(session)s AND entry.epoch = %(epoch)s AND entry.consumed_at IS NULL", "%(epoch)s > 0"
    )
    assert everyone != rows._TAKE
    monkeypatch.setattr(rows, "_TAKE", everyone)
    with pytest.raises(AssertionError):
        run(owner.account, lambda scene: prove_apart(scene, stranger.account))
