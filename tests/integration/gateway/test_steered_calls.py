"""A steer goes into the next call on its way to the provider, into that one alone, and the machine's own body is recorded as it was."""

import asyncio

import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import AccountBudget, Call, Steer
from gateway_app.services import steer
from tests.integration.gateway.house import House, run
from tests.support.fleet import Tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_two_calls_at_once_one_is_steered(owner: Tenant) -> None:
    async def act(at: House) -> None:
        kept = await sync_to_async(steer.add)(at.session, "go left")
        await asyncio.gather(*[at.ask() for _ in range(4)])
        await at.ask()
        calls = await sync_to_async(lambda: list(Call.objects.exclude(steer_id="")))()
        assert [call.steer_id for call in calls] == [kept.id]
        assert calls[0].body_sha256 != calls[0].sent_sha256
        sent = sorted(line["body_sha256"] for line in at.bill["lines"])
        assert len(set(sent)) == 2
        assert sent.count(calls[0].sent_sha256) == 1
        assert (await sync_to_async(Steer.objects.get)()).call_id == calls[0].id

    run(owner.account, act)


def test_an_accounts_sums_are_kept_from_its_first_call_on_whether_it_has_a_budget_or_not(owner: Tenant) -> None:
    async def act(at: House) -> None:
        await at.ask()
        row = await sync_to_async(AccountBudget.objects.get)()
        assert (row.billed_calls, row.spent_tokens) == (1, at.bill["input_tokens"] + at.bill["output_tokens"])
        assert (row.tokens, row.microusd, row.revision) == (None, None, 0)

    run(owner.account, act)
