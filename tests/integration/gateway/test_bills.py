"""Our books and the provider's own bill: the same figures, whatever broke, was refused or was asked again."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import ClientError
from asgiref.sync import sync_to_async

from gateway_app.models import AccountBudget, SessionBudget, UsageEntry
from sessions_app.models import Session
from tests.integration.gateway.house import BODY, STREAM, House, run
from tests.integration.gateway.odd import events, odd
from tests.integration.gateway.test_calls import PATHS
from tests.integration.gateway.test_replay import resumed
from tests.support.api import Caller
from tests.support.fleet import Tenant
from tests.unit.gateway import answers

pytestmark = pytest.mark.django_db(transaction=True)

FATES: list[dict[str, Any]] = [
    {"words": 3},
    {"cut": "reset", "events": 3},
    {"words": 7},
    {"status": 429},
    {"cut": "error", "events": 2},
    {"words": 40},
    {"status": 500},
    {"cut": "reset", "events": 0},
    {"words": 1},
    {"cut": "close", "events": 1},
]


async def mixed(at: House, count: int) -> None:
    """Calls of all four APIs in both transports; those that share a fate at once."""
    paths, at_once = list(PATHS.values()), count // len(FATES)
    for place, fate in enumerate(FATES):
        for _ in range(at_once):
            at.act(**fate)
        numbers = range(place * at_once, (place + 1) * at_once)
        asked = [({**(STREAM if number % 3 else BODY), "seed": number}, paths[number % 4]) for number in numbers]
        await asyncio.gather(*[_tried(at, body, path) for body, path in asked])


async def _tried(at: House, body: Any, path: str) -> None:
    with suppress(ClientError):
        await at.ask(body, path=path)


def test_sixty_calls_with_faults_are_billed_as_the_provider_bills_them_and_every_route_tells_the_same(owner: Tenant, api: Caller) -> None:
    async def act(at: House) -> None:
        await mixed(at, 60)
        lines = at.bill["lines"]
        whole = [line for line in lines if line["outcome"] == "complete"]
        tokens = sum(line["input_tokens"] + line["output_tokens"] for line in whole)
        broken = at.bill["billed_calls"] - len(whole)
        assert (len(lines), broken > 5, len(whole) > 20) == (60, True, True)
        row = await sync_to_async(SessionBudget.objects.get)()
        assert (row.spent_tokens, row.billed_calls, row.unknown_calls) == (tokens, at.bill["billed_calls"], broken)
        url = await resumed(at)
        again = {**STREAM, "seed": 4}  # of Anthropic, and complete
        assert (await at.ask(again, url=url)).headers["x-keepstate-replayed"] == "1"
        assert at.bill["calls"] == 60
        await sync_to_async(_told)(api, at.session, tokens, at.bill["billed_calls"], broken)

    run(owner.account, act)


def _told(api: Caller, session: Session, tokens: int, billed: int, unknown: int) -> None:
    meter = api("GET", f"/api/sessions/{session.short_id}/meter").json()
    assert (meter["spent"], meter["billed_calls"], meter["unknown_calls"], meter["replayed_calls"]) == (tokens, billed, unknown, 1)
    rows = api("GET", f"/api/v2/sessions/{session.id}/usage").json()["data"]["entries"]
    models = [row for row in rows if row["kind"] == "model"]
    assert sum(row["calls"] for row in models if row["billed"]) == billed
    whole = AccountBudget.objects.get()
    assert (whole.spent_tokens, whole.billed_calls, whole.unknown_calls) == (tokens, billed, unknown)
    ledger = UsageEntry.objects.filter(billed=True)
    known = ledger.filter(input_tokens__isnull=False)
    assert sum((line.input_tokens or 0) + (line.output_tokens or 0) for line in known) == tokens
    assert (ledger.count() - known.count(), ledger.values("call").distinct().count()) == (unknown, billed)
    account = api("GET", "/api/v2/account/usage").json()["data"]["model"]
    assert tokens in account.values()


def test_figures_that_are_told_again_and_again_are_set_and_never_added_up_and_a_zero_is_a_figure(owner: Tenant) -> None:
    """As a provider tells them in each event; the last word holds, an explicit zero too."""
    begun, *middle, ended, stop = [part + b"\n\n" for part in answers.MESSAGE_STREAM.split(b"\n\n") if part]
    told = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7, "cache_creation_input_tokens": 90}}
    last = {**told, "usage": {"output_tokens": 42, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 500}}
    deltas = [f"event: message_delta\ndata: {json.dumps(one)}\n\n".encode() for one in (told, told, last)]

    async def act(at: House) -> None:
        async with odd(at) as provider:
            provider.answer = events(b"".join([begun, *middle, *deltas, stop]))
            await at.ask(STREAM)
        line = await sync_to_async(UsageEntry.objects.get)()
        assert (line.input_tokens, line.output_tokens, line.cache_read_tokens, line.cache_write_tokens) == (10, 42, 500, 0)
        row = await sync_to_async(SessionBudget.objects.get)()
        assert (row.spent_tokens, row.unpriced_calls, line.microusd) == (552, 1, None)

    assert ended
    run(owner.account, act)


def test_a_budget_is_passed_by_what_was_under_way_and_by_nothing_after_it(owner: Tenant) -> None:
    async def act(at: House) -> None:
        await sync_to_async(Session.objects.filter(id=at.session.id).update)(budget_tokens=1)
        answered = [got.status for got in await asyncio.gather(*[at.ask() for _ in range(32)])]
        assert set(answered) <= {200, 402}
        row = await sync_to_async(SessionBudget.objects.get)()
        assert answered.count(200) == row.billed_calls == at.bill["calls"] >= 1
        assert row.spent_tokens == at.bill["input_tokens"] + at.bill["output_tokens"]
        assert [got.status for got in await asyncio.gather(*[at.ask() for _ in range(4)])] == [402] * 4

    run(owner.account, act)
