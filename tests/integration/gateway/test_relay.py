"""A program behind the guest's relay: it sees no break of the relay's own connection, and nothing is paid twice."""

import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import UsageEntry
from gateway_app.states import Served
from tests.integration.gateway.house import BODY, STREAM, House, run
from tests.integration.gateway.relay import Break, relay
from tests.integration.gateway.test_calls import PATHS
from tests.support.fleet import Tenant

pytestmark = pytest.mark.django_db(transaction=True)


@sync_to_async
def served() -> list[str]:
    return list(UsageEntry.objects.order_by("id").values_list("served", flat=True))


@pytest.mark.parametrize("api", list(PATHS))
def test_a_program_gets_the_same_bytes_as_without_the_relay(owner: Tenant, api: str) -> None:
    async def act(at: House) -> None:
        async with relay(at) as through:
            for body in (STREAM, BODY):
                direct = await at.ask(body, path=PATHS[api])
                at.fake.bill.lines.clear()  # the fake's answers bear the number of their line
                got = await at.ask(body, path=PATHS[api], url=through.url)
                at.fake.bill.lines.clear()
                assert (got.whole, got.status, got.body) == (True, 200, direct.body)
                assert got.headers["Content-Type"] == direct.headers["Content-Type"]
                assert got.headers["x-keepstate-call"].startswith("call_")

    run(owner.account, act)


@pytest.mark.parametrize("how", ["reset", "close", "hang"])
def test_wherever_the_line_breaks_the_program_gets_all_of_one_call(owner: Tenant, how: str) -> None:
    async def act(at: House) -> None:
        async with relay(at) as through:
            uncut = (await at.ask(STREAM, url=through.url)).body
            ends = [index + 2 for index in range(len(uncut)) if uncut[index : index + 2] == b"\n\n"]
            assert len(ends) > 10
            points = [None, 0, *ends, *(end - 7 for end in ends[::3])]
            for point in points[:: 4 if how == "hang" else 1]:
                at.fake.bill.lines.clear()
                through.line.breaks.append(Break(how, point))
                got = await at.ask(STREAM, url=through.url)
                assert (got.whole, got.body, at.bill["calls"]) == (True, uncut, 1), point
                assert not through.line.breaks
        assert set(await served()) == {Served.UPSTREAM}

    run(owner.account, act)
