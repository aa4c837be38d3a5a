"""What other gateways were reported for, where no other test guards it already; docs/decisions/0006-reports.md has the whole list."""

import asyncio
from typing import Any

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import Call, SessionBudget
from gateway_app.proxy import answer, server
from gateway_app.states import CallState
from tests.integration.gateway.house import BODY, STREAM, House, run, until
from tests.integration.gateway.odd import events, odd
from tests.integration.gateway.test_replay import resumed
from tests.support.fleet import Tenant
from tests.unit.gateway import answers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("body", [BODY, STREAM])
def test_7_who_leaves_before_the_first_byte_has_paid_and_its_retry_gets_what_it_paid_for(owner: Tenant, body: dict[str, Any]) -> None:
    async def act(at: House) -> None:
        at.act(wait_seconds=0.3)
        leaving = asyncio.create_task(at.ask(body))
        await until(at.reading)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        again = await at.ask(body)
        assert (again.status, again.whole, at.bill["calls"]) == (200, True, 1)
        assert (await sync_to_async(SessionBudget.objects.get)()).billed_calls == 1

    run(owner.account, act)


def test_10_a_provider_that_keeps_silent_is_left_and_nobody_waits_for_ever(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SILENCE_SECONDS", 0.1)

    async def act(at: House) -> None:
        for events_ in (0, 3):
            at.act(cut="hang", events=events_)
            try:
                assert (got := await at.ask(STREAM)).status == 502 or not got.whole
            except aiohttp.ClientError:
                assert events_
        states = await sync_to_async(lambda: list(Call.objects.values_list("state", flat=True)))()
        assert states == [CallState.CUT] * 2
        assert not at.gate.pumps

    run(owner.account, act)


def test_12_a_stream_is_replayed_event_by_event_as_it_came_and_11_with_its_reasoning(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            provider.answer = events(answers.MESSAGE_STREAM)
            first = await at.ask(STREAM)
            again = await at.ask(STREAM, url=await resumed(at))
            assert again.body == first.body == answers.MESSAGE_STREAM
            assert (again.body.count(b"content_block_delta"), b"thinking_delta" in again.body) == (14, True)

    run(owner.account, act)


@pytest.mark.parametrize(("path", "ping"), [("/v1/messages", b"event: ping"), ("/v1/responses", b": keep-alive")])
def test_19_26_a_stream_that_is_quiet_is_kept_alive_and_its_client_reads_the_same(
    owner: Tenant, path: str, ping: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "PING_SECONDS", 0.02)

    async def act(at: House) -> None:
        at.act(pace_seconds=0.06, words=2)
        got = await at.ask(STREAM, path=path)
        assert got.whole
        assert got.body.count(ping) > 2
        again = await at.ask(STREAM, path=path, url=await resumed(at))
        assert b"".join(part for part in got.body.split(b"\n\n") if ping not in part) == b"".join(
            part for part in again.body.split(b"\n\n") if ping not in part
        )

    run(owner.account, act)
