"""The gateway process: it finds the machines of its host, waits for its turn and for the database, and ends what it has begun."""

import asyncio
from typing import Any

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from psycopg_pool import PoolTimeout

from gateway_app.egress.policy import Rule
from gateway_app.models import Call, EgressSum, GatewayProcess, UsageEntry
from gateway_app.proxy import machines
from gateway_app.proxy.pool import pool
from gateway_app.states import CallState
from sessions_app.models import Session
from tests.integration.gateway.house import STREAM, until
from tests.integration.gateway.kept import call_row
from tests.integration.gateway.loopback import Host, on_host
from tests.integration.gateway.outside import set_policy
from tests.support.fleet import Tenant, session_row
from workers.gateway import life

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_machine_that_is_there_is_answered_and_one_that_comes_is_answered_when_the_bell_rings(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        other = at.place(await sync_to_async(session_row)(owner.account))
        async with at.gateway():
            await until(lambda: _is(at, None, 200))
            assert await at.status(other) is None
            at.places.there.add(other)
            at.ring()
            await until(lambda: _is(at, other, 403))  # it is that session, which has no key

    on_host(owner.account, act)


async def _is(at: Host, place: Any, status: int | None) -> bool:
    return await at.status(place) == status


def test_a_machine_is_let_out_by_the_policy_of_its_own_session(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        await sync_to_async(set_policy)(at.session, Rule("example.com", (443,)))
        async with at.gateway():
            await until(lambda: _is(at, None, 200))
            said = [await _asked(at, target) for target in ("example.com:80", "127.0.0.1:443")]
        assert ["ks_egress_denied" in said[0], "ks_egress_address" in said[1]] == [True, True]
        assert await sync_to_async(EgressSum.objects.get)(session=at.session, refusals=2, connections=0)

    on_host(owner.account, act)


async def _asked(at: Host, target: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", at.places.egress_ports[at.place()])
    writer.write(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    writer.write_eof()
    said = await reader.read()
    writer.close()
    return said.decode()


def test_a_machine_that_is_gone_has_no_door_any_more_and_what_it_was_told_breaks(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        async with at.gateway(drain_seconds=0.01):
            await until(lambda: _is(at, None, 200))
            at.act(cut="hang", events=3)
            async with at.post(body=STREAM) as answer:
                await answer.content.readany()
                at.places.there.clear()
                at.ring()
                with pytest.raises(aiohttp.ClientError):
                    await answer.content.read()
            assert await at.status() is None

    on_host(owner.account, act)


def test_an_epoch_that_is_over_is_answered_no_more_though_its_network_is_there(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        async with at.gateway():
            await until(lambda: _is(at, None, 200))
            await sync_to_async(Session.objects.update)(epoch=2)
            at.ring()
            await until(lambda: _is(at, None, None))

    on_host(owner.account, act)


def test_a_forks_channel_lets_in_what_its_memory_has_of_its_parent_and_no_strangers(owner: Tenant, stranger: Tenant) -> None:
    async def act(at: Host) -> None:
        child = await sync_to_async(session_row)(owner.account, parent_id=at.session.id)
        foreign = await sync_to_async(session_row)(stranger.account, parent_id=at.session.id)
        async with pool() as database:
            known = await machines.channels(database, [(child.id, 1), (foreign.id, 1), (at.session.id, 7)])
        assert {place: who.line for place, who in known.items()} == {
            (child.id, 1): {child.id, at.session.id},
            (foreign.id, 1): {foreign.id},
        }

    on_host(owner.account, act)


def test_while_the_database_does_not_answer_a_machine_is_told_to_come_again_and_nothing_dies(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: Any) -> Any:
        raise PoolTimeout("no connection")

    async def act(at: Host) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("workers.gateway.doors.channels", silent)
            patch.setattr("workers.gateway.run.tell", silent)
            patch.setattr("workers.gateway.doors.KNOWN_SECONDS", 0.01)
            async with at.gateway() as running:
                async with at.post() as answer:
                    assert (answer.status, answer.headers["retry-after"], answer.headers["x-should-retry"]) == (503, "1", "true")
                patch.undo()
                await until(lambda: _is(at, None, 200))
                assert not running.task.done()

    on_host(owner.account, act)


def test_one_that_drains_reads_on_lets_nobody_in_and_gives_the_doors_to_its_successor(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        async with at.gateway() as first:
            await until(lambda: _is(at, None, 200))
            at.act(hold=True, events=3)
            async with at.post(body=STREAM) as answer:
                await answer.content.readany()
                second = at.begun()
                assert not second.serves.is_set()
                first.ending.ask()
                await asyncio.wait_for(second.serves.wait(), 20)
                assert not first.task.done()
                await until(lambda: _is(at, None, 200))
                at.fake.release()
                assert b"message_stop" in await answer.content.read()
            await asyncio.wait_for(first.task, 20)
            second.ending.ask()
            await asyncio.wait_for(second.task, 20)
        assert await sync_to_async(Call.objects.exclude(state=CallState.COMPLETE).count)() == 0

    on_host(owner.account, act)


def test_who_goes_on_with_a_call_that_the_draining_process_reads_gets_all_of_it_from_the_successor(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        async with at.gateway() as first:
            await until(lambda: _is(at, None, 200))
            at.act(pace_seconds=0.05, words=30)
            async with at.post(body=STREAM, x_keepstate_relay="relay-1") as answer:
                await answer.content.readany()
            first.ending.ask()
            async with at.gateway():
                async with at.post(body=STREAM, x_keepstate_relay="relay-1") as answer:
                    taken = await answer.content.read()
                assert b"message_stop" in taken
        assert at.fake.bill.told()["calls"] == 2  # the one that looked whether it serves, and this one

    on_host(owner.account, act)


@pytest.mark.parametrize("hurried", [False, True])
def test_one_that_may_not_wait_longer_breaks_what_is_left_and_says_that_its_end_is_unknown(owner: Tenant, hurried: bool) -> None:
    async def act(at: Host) -> None:
        async with at.gateway(drain_seconds=600 if hurried else 0.01) as running:
            await until(lambda: _is(at, None, 200))
            at.act(cut="hang", events=3)
            async with at.post(body=STREAM) as answer:
                await answer.content.readany()
                running.ending.ask()
                if hurried:
                    running.ending.ask()
                with pytest.raises(aiohttp.ClientError):
                    await answer.content.read()
                await asyncio.wait_for(running.task, 20)
        assert await sync_to_async(Call.objects.filter(state=CallState.UNKNOWN).count)() == 1

    on_host(owner.account, act)


def test_what_a_dead_process_left_open_ends_as_unknown_as_soon_as_the_next_one_serves(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        left = await sync_to_async(call_row)(at.session, 1, pump="dead", pump_seen_at="2999-01-01T00:00:00Z")
        await sync_to_async(GatewayProcess.objects.create)(name="dead", host_id="h-test")
        (life.directory(at.directory) / "dead.life").touch()
        async with at.gateway():
            await until(lambda: _state(left, CallState.UNKNOWN))
            await until(lambda: _forgotten(at))
        assert await sync_to_async(UsageEntry.objects.filter(call=left, billed=True, input_tokens=None).count)() == 1
        assert not await sync_to_async(GatewayProcess.objects.exists)()

    on_host(owner.account, act)


async def _forgotten(at: Host) -> bool:
    return not (life.directory(at.directory) / "dead.life").exists()


async def _state(call: Call, state: CallState) -> bool:
    return await sync_to_async(Call.objects.filter(id=call.id, state=state).exists)()


def test_a_process_that_lives_is_not_taken_for_dead(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        with life.living(at.directory) as name:
            assert life.dead(at.directory) == []
        assert life.dead(at.directory) == [name]

    on_host(owner.account, act)
