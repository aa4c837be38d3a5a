"""What a provider keeps of a conversation does not go back with a machine: the window answers, and beyond it the provider's word holds."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import Call, UsageEntry
from gateway_app.states import CallState
from tests.integration.gateway.house import BODY, House, run
from tests.integration.gateway.test_replay import resumed
from tests.support.fleet import Tenant

pytestmark = pytest.mark.django_db(transaction=True)

CREATE = {**BODY, "thread": {"type": "create"}}


def go_on(before: str, text: str = "And then?") -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {**BODY, "messages": [message], "thread": {"type": "continue", "previous_message_id": before}}


def test_a_message_that_can_be_continued_once_is_continued_by_the_record_after_a_rewind_and_goes_on_from_there(owner: Tenant) -> None:
    async def act(at: House) -> None:
        first = (await at.ask(CREATE)).json["id"]
        second = await at.ask(go_on(first))
        url = await resumed(at, "lost")
        again = await at.ask(go_on(first), url=url)
        assert (again.body, at.bill["calls"]) == (second.body, 2)
        assert (await at.ask(go_on(second.json["id"]), url=url)).status == 200

    run(owner.account, act)


def test_beyond_the_window_the_providers_refusal_is_passed_on_costs_nothing_and_is_not_kept_for_an_answer(owner: Tenant) -> None:
    async def act(at: House) -> None:
        first = (await at.ask(CREATE)).json["id"]
        await at.ask(go_on(first))
        for _ in range(2):
            refused = await at.ask(go_on(first))
            assert (refused.status, refused.json["error"]["type"]) == (400, "thread_already_continued")
        assert "x-keepstate-replayed" not in refused.headers
        states = await sync_to_async(lambda: list(Call.objects.order_by("started").values_list("state", flat=True)))()
        assert states == [CallState.COMPLETE] * 2 + [CallState.REFUSED] * 2
        assert await sync_to_async(UsageEntry.objects.count)() == 2
        assert (await at.ask(go_on("msg_of_nobody"))).json["error"]["type"] == "thread_not_found"

    run(owner.account, act)


def test_of_two_ways_from_one_message_the_second_hears_that_it_was_continued(owner: Tenant) -> None:
    async def act(at: House) -> None:
        first = (await at.ask(CREATE)).json["id"]
        url = await resumed(at, "lost")
        assert (await at.ask(go_on(first, "left"), url=url)).status == 200
        other = await at.ask(go_on(first, "right"), url=await at.moved(epoch=3))
        assert (other.status, other.json["error"]["type"]) == (400, "thread_already_continued")

    run(owner.account, act)


def test_a_previous_response_is_gone_on_from_by_the_record_after_a_rewind_and_by_the_provider_beyond(owner: Tenant) -> None:
    async def act(at: House) -> None:
        path = "/v1/responses"
        first = (await at.ask({"model": "m", "input": "one"}, path=path)).json["id"]
        following = {"model": "m", "input": "two", "previous_response_id": first}
        second = await at.ask(following, path=path)
        url = await resumed(at, "lost")
        assert (await at.ask(following, path=path, url=url)).body == second.body
        third = await at.ask(following, path=path, url=url)
        assert (third.json["id"] != second.json["id"], at.bill["calls"]) == (True, 3)
        unknown = await at.ask({**following, "previous_response_id": "resp_of_nobody"}, path=path, url=url)
        assert unknown.json["error"]["code"] == "previous_response_not_found"

    run(owner.account, act)
