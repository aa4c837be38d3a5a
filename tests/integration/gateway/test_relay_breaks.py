"""What may happen to a relay and its gateway while a program waits: the program gets all of one answer, or a broken connection."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import WindowEntry
from gateway_app.proxy import answer
from gateway_app.proxy import channel as channels
from gateway_app.proxy.server import gateway
from tests.integration.gateway.house import MESSAGES, SECRET, STREAM, Got, House, open_door, provided, run, until
from tests.integration.gateway.relay import Break, Relay, relay
from tests.integration.gateway.test_replay import resumed
from tests.support.fleet import Tenant

pytestmark = pytest.mark.django_db(transaction=True)


@asynccontextmanager
async def halfway(at: House, **fate: object) -> AsyncIterator[tuple[Relay, "asyncio.Task[Got]", bytes]]:
    """A program has a part of its answer, of which the rest does not come any more; the provider has given all of it."""
    async with relay(at, silence=60) as through:
        uncut = (await at.ask(STREAM, url=through.url)).body
        at.fake.bill.lines.clear()
        through.line.breaks.append(Break("hang", 700))
        asking = asyncio.create_task(at.ask(STREAM, url=through.url))
        await until(lambda: _hangs(at, through))
        yield through, asking, uncut


async def _hangs(at: House, through: Relay) -> bool:
    return not through.line.breaks and at.bill["calls"] == 1 and not at.gate.pumps


def test_another_gateway_goes_on_from_the_record(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with halfway(at) as (through, asking, uncut):
            await at.doors[0].close()
            async with gateway(provided(at.provider), drain_seconds=5) as next_one:
                through.line.url = await open_door(next_one, at.channel, at.doors)
                through.line.cut()
                assert (await asking).body == uncut
            assert at.bill["calls"] == 1

    run(owner.account, act)


def test_after_a_resume_the_program_has_the_rest_and_the_same_question_on_purpose_is_a_call_of_its_own(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with halfway(at) as (through, asking, uncut):
            through.signal(signal.SIGSTOP)
            through.line.url = await resumed(at)
            through.line.cut()
            through.signal(signal.SIGCONT)
            assert (await asking).body == uncut
            assert at.bill["calls"] == 1
            await sync_to_async(WindowEntry.objects.exclude(consumed_by="").get)()
            await at.ask(STREAM, url=through.url)
            await at.ask(STREAM, url=through.url)
            assert at.bill["calls"] >= 2

    run(owner.account, act)


def test_a_call_that_another_process_still_reads_is_waited_for(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with relay(at) as through, gateway(provided(at.provider), drain_seconds=5) as elsewhere:
            at.act(pace_seconds=0.03)
            through.line.breaks.append(Break("hang", 300))
            asking = asyncio.create_task(at.ask(STREAM, url=through.url))
            await until(at.reading)
            through.line.url = await open_door(elsewhere, at.channel, at.doors)
            got = await asking
            assert (got.whole, at.bill["calls"]) == (True, 1)
            assert b"message_stop" in got.body

    run(owner.account, act)


def test_a_gateway_that_is_away_for_a_moment_is_waited_for(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with relay(at, silence=60) as through:
            through.line.breaks.extend([Break("reset", None)] * 4)
            assert (await at.ask(STREAM, url=through.url)).whole
            assert (through.line.connections, at.bill["calls"]) == (5, 1)

    run(owner.account, act)


@pytest.mark.parametrize("cut", ["reset", "close", "end", "error"])
def test_what_the_provider_broke_off_ends_by_a_reset_for_the_program(owner: Tenant, cut: str) -> None:
    async def act(at: House) -> None:
        async with relay(at) as through:
            at.act(cut=cut, events=5)
            with pytest.raises(ConnectionResetError):
                await _raw(at, through.url)
            assert at.bill["calls"] == 1

    run(owner.account, act)


async def _raw(at: House, url: str) -> bytes:
    """The connection's bytes to its end."""
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    body = b'{"model": "fake-model", "stream": true, "messages": []}'
    head = f"POST {MESSAGES} HTTP/1.1\r\nhost: x\r\nx-api-key: {channels.credential(at.session.id, SECRET)}\r\n"
    writer.write(f"{head}anthropic-version: 2023-06-01\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    try:
        return await reader.read()
    finally:
        writer.close()


@asynccontextmanager
async def coming(at: House) -> AsyncIterator[tuple[Relay, "asyncio.Task[Got]"]]:
    """A program has the beginning of its answer, and the provider still gives."""
    async with relay(at) as through:
        at.act(pace_seconds=0.05)
        asking = asyncio.create_task(at.ask(STREAM, url=through.url))
        await until(lambda: _passed(through))
        yield through, asking


async def _passed(through: Relay) -> bool:
    return through.line.passed > 0


def test_a_relay_that_is_killed_breaks_its_connections_and_is_there_again_and_the_retry_costs_nothing(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with coming(at) as (through, asking):
            killed = through.serving
            through.signal(signal.SIGKILL)
            assert await _broke(asking)
            await until(lambda: _another(through, killed))
            again = await at.ask(STREAM, url=through.url)
            assert (again.whole, again.headers["x-keepstate-replayed"], at.bill["calls"]) == (True, "1", 1)

    run(owner.account, act)


async def _broke(asking: "asyncio.Task[Got]") -> bool:
    """Before or after its head."""
    try:
        return not (await asking).whole
    except aiohttp.ClientError:
        return True


async def _another(through: Relay, killed: int) -> bool:
    try:
        return through.serving != killed
    except ValueError:  # between two
        return False


def test_a_program_that_leaves_and_asks_again_pays_once(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with coming(at) as (through, asking):
            asking.cancel()
            await until(lambda: _left_alone(at))
            again = await at.ask(STREAM, url=through.url)
            assert (again.whole, at.bill["calls"]) == (True, 1)

    run(owner.account, act)


async def _left_alone(at: House) -> bool:
    return await sync_to_async(WindowEntry.objects.filter(why="undelivered", consumed_at=None).exists)()


def test_a_stream_whose_model_thinks_for_long_is_kept_alive_between_its_events(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "PING_SECONDS", 0.05)

    async def act(at: House) -> None:
        async with relay(at) as through:
            uncut = (await at.ask(STREAM, url=through.url)).body
            at.fake.bill.lines.clear()
            at.act(pace_seconds=0.1, wait_seconds=0.2)
            got = await at.ask(STREAM, url=through.url)
            ping = b'event: ping\ndata: {"type": "ping"}\n\n'
            assert got.body.count(ping) > uncut.count(ping)
            assert got.body.replace(ping, b"") == uncut.replace(ping, b"")

    run(owner.account, act)


@pytest.mark.parametrize(("fate", "status"), [({"status": 429}, 429), ({"cut": "close", "events": 0}, 502)])
def test_a_refusal_that_comes_late_is_passed_on_as_it_is(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch, fate: dict[str, object], status: int
) -> None:
    monkeypatch.setattr(answer, "PING_SECONDS", 0.05)

    async def act(at: House) -> None:
        async with relay(at) as through:
            at.act(**fate, wait_seconds=0.2)
            got = await at.ask(url=through.url)
            assert (got.whole, got.status, got.json["type"]) == (True, status, "error")

    run(owner.account, act)
