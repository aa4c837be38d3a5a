"""Under which name a relay's call goes on, whose it is, and for which request alone."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import Call, EpochOrigin
from gateway_app.proxy.answer import FRAMES, Frame
from tests.integration.gateway.house import BODY, STREAM, Got, House, run
from tests.integration.gateway.relay import Break, relay
from tests.integration.gateway.test_replay import relayed, resumed, served, unframed
from tests.support.fleet import Tenant, session_row

pytestmark = pytest.mark.django_db(transaction=True)


async def asked(at: House, relay_id: str, body: Any = STREAM, offset: int = 0, url: str = "") -> Got:
    return await at.ask(body, url=url, X_KeepState_Relay=relay_id, X_KeepState_Offset=str(offset))


def answered(got: Got) -> bytes:
    assert got.headers["Content-Type"] == FRAMES
    return b"".join(data for kind, data in unframed(got.body) if kind == Frame.DATA)


@sync_to_async
def fork(at: House) -> str:
    """A child of the machine as it is now, that no key is bound to."""
    child = session_row(at.session.account, parent_id=at.session.id)
    last = Call.objects.order_by("-started")[0].started
    EpochOrigin.objects.create(session=child, epoch=child.epoch, from_id=at.session.id, from_epoch=1, watermark=last)
    return child.id


async def door_of(at: House, child: str) -> str:
    return await at.door(replace(at.channel, session_id=child, epoch=1, line=frozenset({child, at.session.id})))


def test_each_fork_goes_on_by_itself_with_its_parents_call_and_pays_nothing(owner: Tenant) -> None:
    async def act(at: House) -> None:
        whole = answered(await asked(at, "r1"))
        for _ in range(2):
            assert answered(await asked(at, "r1", offset=300, url=await door_of(at, await fork(at)))) == whole[300:]
        assert at.bill["calls"] == 1
        assert await served() == ["upstream"]

    run(owner.account, act)


def test_a_name_that_two_machines_drew_by_accident_is_no_answer_to_another_request(owner: Tenant) -> None:
    async def act(at: House) -> None:
        assert answered(await asked(at, "r1"))
        other = await asked(at, "r1", {**STREAM, "system": "another"}, url=await door_of(at, await fork(at)))
        assert other.status == 403  # it is not served: it would be sent, if the child had a key

    run(owner.account, act)


def test_a_part_of_an_answer_that_nobody_knows_is_not_completed_by_another_one(owner: Tenant) -> None:
    async def act(at: House) -> None:
        got = await asked(at, "r1", offset=10)
        assert (got.status, at.bill["calls"]) == (409, 0)

    run(owner.account, act)


@pytest.mark.parametrize("body", [STREAM, BODY])
def test_a_replayed_answer_goes_on_too_where_the_line_breaks(owner: Tenant, body: dict[str, Any]) -> None:
    async def act(at: House) -> None:
        uncut = await at.ask(body)
        async with relay(at) as through:
            through.line.url = await resumed(at)
            through.line.breaks.extend([Break("reset", 100), Break("reset", 50)])
            got = await at.ask(body, url=through.url)
            assert (got.body, got.headers["x-keepstate-replayed"], at.bill["calls"]) == (uncut.body, "1", 1)
            assert await served() == ["upstream", "replayed"]

    run(owner.account, act)


def test_a_providers_refusal_is_the_same_however_often_its_relay_comes_for_it(owner: Tenant) -> None:
    async def act(at: House) -> None:
        at.act(status=429, retry_after="7")
        async with relay(at) as through:
            through.line.breaks.append(Break("reset", 10))
            got = await at.ask(url=through.url)
            assert (got.whole, got.status, got.headers["Retry-After"], at.bill["calls"]) == (True, 429, "7", 1)
        assert await sync_to_async(Call.objects.count)() == 1

    run(owner.account, act)


def test_two_connections_of_one_relay_for_one_call_make_one_call(owner: Tenant) -> None:
    async def act(at: House) -> None:
        both = await asyncio.gather(*[relayed(at, "r1") for _ in range(4)])
        assert len({b"".join(data for kind, data in one if kind == Frame.DATA) for one in both}) == 1
        assert at.bill["calls"] == 1

    run(owner.account, act)
