"""What is served from the record, in which transport, how often, and to whom."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import Call, SessionBudget, UsageEntry, WindowEntry
from gateway_app.proxy import channel
from gateway_app.proxy.answer import FRAMES, Frame
from gateway_app.states import Served
from tests.integration.gateway.house import BODY, MESSAGES, SECRET, STREAM, House, run, until
from tests.support.fleet import Tenant

pytestmark = pytest.mark.django_db(transaction=True)


@sync_to_async
def open_window(at: House, why: str = "in_flight", epoch: int = 2) -> None:
    """As a resume does: every recorded call may answer in the new epoch."""
    from datetime import timedelta

    from django.utils import timezone

    for call in Call.objects.order_by("started"):
        WindowEntry.objects.create(
            session_id=at.session.id, epoch=epoch, call=call, why=why, order=call.started, open_until=timezone.now() + timedelta(minutes=5)
        )


@sync_to_async
def served() -> list[str]:
    return list(UsageEntry.objects.order_by("id").values_list("served", flat=True))


async def resumed(at: House, why: str = "in_flight") -> str:
    await open_window(at, why)
    return await at.moved(epoch=2)


@pytest.mark.parametrize("body", [BODY, STREAM])
def test_after_a_resume_an_equal_request_gets_the_recorded_answer_and_the_bill_stays(owner: Tenant, body: dict[str, Any]) -> None:
    async def act(at: House) -> None:
        first = await at.ask(body)
        again = await at.ask(body, url=await resumed(at))
        assert (again.body, again.headers["x-keepstate-replayed"]) == (first.body, "1")
        assert again.headers["request-id"] == first.headers["request-id"]
        assert at.bill["calls"] == 1
        assert await served() == [Served.UPSTREAM, Served.REPLAYED]
        row = await sync_to_async(SessionBudget.objects.get)()
        assert (row.billed_calls, row.replayed_calls, row.replayed_tokens) == (1, 1, row.spent_tokens)

    run(owner.account, act)


def test_each_recorded_answer_is_served_once_in_an_epoch_and_two_calls_on_purpose_are_two(owner: Tenant) -> None:
    async def act(at: House) -> None:
        await at.ask()
        url = await resumed(at)
        answers = await asyncio.gather(*[at.ask(url=url) for _ in range(4)])
        assert sorted("x-keepstate-replayed" in one.headers for one in answers) == [False, False, False, True]
        assert at.bill["calls"] == 4

    run(owner.account, act)


def test_without_a_resume_nothing_is_replayed(owner: Tenant) -> None:
    async def act(at: House) -> None:
        await at.ask()
        await at.ask()
        assert at.bill["calls"] == 2

    run(owner.account, act)


@pytest.mark.parametrize(("first", "then"), [(STREAM, BODY), (BODY, STREAM)])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses"])
def test_a_client_that_falls_back_to_the_other_transport_is_answered_in_it(
    owner: Tenant, first: dict[str, Any], then: dict[str, Any], path: str
) -> None:
    async def act(at: House) -> None:
        await at.ask(first, path=path)
        again = await at.ask(then, path=path, url=await resumed(at))
        wanted = "text/event-stream" if then.get("stream") else "application/json"
        assert again.headers["Content-Type"].startswith(wanted)
        assert at.bill["calls"] == 1
        assert again.status == 200

    run(owner.account, act)


def test_what_a_new_process_varies_matches_only_a_call_that_was_in_flight(owner: Tenant) -> None:
    async def act(at: House) -> None:
        await at.ask({**BODY, "metadata": {"user_id": "one"}})
        url = await resumed(at, "lost")
        await at.ask({**BODY, "metadata": {"user_id": "two"}}, url=url)
        assert at.bill["calls"] == 2

    run(owner.account, act)


def test_a_call_of_its_own_closes_what_lay_on_the_way_that_was_left(owner: Tenant) -> None:
    async def act(at: House) -> None:
        await at.ask()
        url = await resumed(at, "lost")
        await at.ask({**BODY, "system": "another way"}, url=url)
        await at.ask(url=url)
        assert at.bill["calls"] == 3

    run(owner.account, act)


def test_an_answer_that_broke_is_never_replayed(owner: Tenant) -> None:
    async def act(at: House) -> None:
        at.act(cut="reset", events=4)
        await at.ask(STREAM)
        got = await at.ask(STREAM, url=await resumed(at))
        assert (got.whole, "x-keepstate-replayed" in got.headers, at.bill["calls"]) == (True, False, 2)

    run(owner.account, act)


def test_a_client_that_kept_a_block_gets_the_rest_of_the_answer(owner: Tenant) -> None:
    async def act(at: House) -> None:
        first = await at.ask(STREAM)
        assert first.whole
        block = {"type": "text", "text": "not what was said"}
        kept = {**STREAM, "messages": [*STREAM["messages"], {"role": "assistant", "content": [block]}]}  # type: ignore[misc]
        await at.ask(kept, url=await resumed(at))
        assert at.bill["calls"] == 2  # the answer had one block, and not this one: there is no rest

    run(owner.account, act)


def test_a_caller_that_left_in_the_middle_gets_the_whole_answer_when_it_asks_again(owner: Tenant) -> None:
    async def act(at: House) -> None:
        at.act(pace_seconds=0.02, words=30)
        headers = {"x-api-key": channel.credential(at.session.id, SECRET), "anthropic-version": "2023-06-01"}
        async with at.client.post(at.url + "/v1/messages", data=json.dumps(STREAM).encode(), headers=headers) as answer:
            await answer.content.readany()
        await until(sync_to_async(WindowEntry.objects.exists))
        got = await at.ask(STREAM)
        assert (got.whole, got.headers["x-keepstate-replayed"], at.bill["calls"]) == (True, "1", 1)
        assert got.body.count(b"text_delta") == 30

    run(owner.account, act)


def test_two_forks_of_one_checkpoint_each_replay_on_their_own(owner: Tenant) -> None:
    async def act(at: House) -> None:
        first = await at.ask()
        children = []
        for _ in range(2):
            child = await sync_to_async(_child)(at)
            who = replace(at.channel, session_id=child, epoch=1, line=frozenset({child, at.session.id}))
            children.append(await at.ask(url=await at.door(who)))
        assert [one.body for one in children] == [first.body, first.body]
        assert at.bill["calls"] == 1

    run(owner.account, act)


def _child(at: House) -> str:
    from datetime import timedelta

    from django.utils import timezone

    from gateway_app.models import KeyBinding
    from tests.support.fleet import session_row

    child = session_row(at.session.account, parent_id=at.session.id, budget_tokens=1_000_000)
    for bound in KeyBinding.objects.filter(session=at.session):
        KeyBinding.objects.create(session=child, provider=bound.provider, key=bound.key)
    call = Call.objects.get()
    until = timezone.now() + timedelta(minutes=5)
    WindowEntry.objects.create(session=child, epoch=1, call=call, why="in_flight", order=call.started, open_until=until)
    return child.id


def unframed(data: bytes) -> list[tuple[Frame, bytes]]:
    found = []
    while data:
        kind, length = data[0], int.from_bytes(data[1:5], "big")
        found.append((Frame(kind), data[5 : 5 + length]))
        data = data[5 + length :]
    return found


async def relayed(at: House, relay_id: str, offset: int = 0, url: str = "") -> list[tuple[Frame, bytes]]:
    got = await at.ask(STREAM, url=url, X_KeepState_Relay=relay_id, X_KeepState_Offset=str(offset))
    assert got.headers["Content-Type"] == FRAMES
    return unframed(got.body)


@pytest.mark.parametrize("offset", [0, 1, 100, 500])
def test_a_relay_goes_on_in_the_middle_of_an_answer_from_the_byte_that_it_has(owner: Tenant, offset: int) -> None:
    async def act(at: House) -> None:
        first = await relayed(at, "r1")
        whole = b"".join(data for kind, data in first if kind == Frame.DATA)
        again = await relayed(at, "r1", offset, url=await at.moved(epoch=2))
        assert b"".join(data for kind, data in again if kind == Frame.DATA) == whole[offset:]
        assert (again[0][0], again[-1][0]) == (Frame.HEAD, Frame.END)
        assert at.bill["calls"] == 1

    run(owner.account, act)


def test_a_relay_joins_an_answer_that_is_still_being_read(owner: Tenant) -> None:
    async def act(at: House) -> None:
        at.act(pace_seconds=0.02, words=30)
        first, second = await asyncio.gather(relayed(at, "r1"), _soon(at))
        assert [data for kind, data in second if kind == Frame.HEAD]
        assert b"".join(d for k, d in second if k == Frame.DATA) == b"".join(d for k, d in first if k == Frame.DATA)
        assert at.bill["calls"] == 1

    run(owner.account, act)


async def _soon(at: House) -> list[tuple[Frame, bytes]]:
    await until(at.reading)
    return await relayed(at, "r1")


def test_a_relay_that_was_given_a_recorded_answer_goes_on_with_it_when_its_connection_to_the_gateway_breaks(owner: Tenant) -> None:
    """A network that goes for a moment, a gateway that is slow: the program behind the relay has its answer without a break."""

    async def act(at: House) -> None:
        at.act(hold=True, events=5)
        for relay_id in ("r1", "r2"):  # the second gets what was left of the first
            await _broken_off(at, relay_id)
            await until(sync_to_async(WindowEntry.objects.filter(consumed_at=None).exists))
        at.fake.release()
        rest = await relayed(at, "r2", 10)
        assert rest[-1] == (Frame.END, b"")
        whole = b"".join(data for kind, data in await relayed(at, "r1") if kind == Frame.DATA)
        assert b"".join(data for kind, data in rest if kind == Frame.DATA) == whole[10:]
        assert at.bill["calls"] == 1

    run(owner.account, act)


async def _broken_off(at: House, relay_id: str) -> None:
    """A relay's connection, once it has a part of the answer."""
    headers = {"x-api-key": channel.credential(at.session.id, SECRET), "anthropic-version": "2023-06-01", "x-keepstate-relay": relay_id}
    async with at.client.post(at.url + MESSAGES, data=json.dumps(STREAM).encode(), headers=headers) as answer:
        taken = b""
        while b"message_start" not in taken:
            taken += await answer.content.readany()


def test_a_relay_whose_call_broke_is_told_so_and_nothing_is_sent_again(owner: Tenant) -> None:
    async def act(at: House) -> None:
        at.act(cut="reset", events=4)
        first = await relayed(at, "r1")
        again = await relayed(at, "r1", 50)
        assert (first[-1][0], again[-1][0], at.bill["calls"]) == (Frame.CUT, Frame.CUT, 1)

    run(owner.account, act)
