"""A machine's way to hosts that its session's policy names: open for those, shut at once when it changes, counted, and never hanging."""

import asyncio

import pytest
from asgiref.sync import sync_to_async

from gateway_app.egress import proxy, rows, server, watch
from gateway_app.egress.head import HEAD_BYTES
from gateway_app.egress.policy import Rule
from gateway_app.egress.tunnel import Tunnel
from gateway_app.models import EgressSum
from gateway_app.proxy.answer import abort
from gateway_app.services import egress_use
from sessions_app.states import SessionState
from tests.integration.gateway.house import until
from tests.integration.gateway.outside import HOST, PUBLIC, Outside, channel, run
from tests.support.fleet import Tenant

pytestmark = pytest.mark.django_db(transaction=True)

CONNECT = f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\n"


def test_a_tunnel_carries_every_byte_both_ways_and_each_side_may_end_first(owner: Tenant) -> None:
    async def act(at: Outside) -> None:
        reader, writer = await at.tunnel()
        sent = bytes(range(256)) * 8192  # more than every buffer on the way holds
        writing = asyncio.create_task(_send(writer, sent))
        assert await reader.readexactly(len(sent)) == sent
        await writing
        writer.write_eof()
        assert await reader.read() == b""
        assert at.world.dialled == [(PUBLIC, 443)]
        await until(lambda: _none(at.egress.tunnels))

    run(owner.account, act)


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def _none(what: set[Tunnel]) -> bool:
    return not what


def test_a_plain_request_goes_to_its_urls_host_with_its_body_and_nothing_behind_it(owner: Tenant) -> None:
    async def act(at: Outside) -> None:
        request = f"POST http://{HOST}/a?b HTTP/1.1\r\nHost: evil.com\r\nContent-Length: 4\r\n\r\nbody"
        assert await at.ask(request) == (200, b"ok")
        assert at.world.heard == f"POST /a?b HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody".encode()
        at.world.heard.clear()
        at.world.answer = None
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(f"GET http://{HOST}/ HTTP/1.1\r\n\r\nGET http://other.example.com/ HTTP/1.1\r\n\r\n".encode())
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert b"other" not in at.world.heard
        writer.close()

    run(owner.account, act)


def test_refusals_say_why_and_what_to_do_and_nothing_was_dialled(owner: Tenant) -> None:
    async def act(at: Outside) -> None:
        at.world.names["other.example.com"] = [[PUBLIC]]
        status, error = await at.refusal("CONNECT other.example.com:443 HTTP/1.1\r\n\r\n")
        assert (status, error["code"], error["host"], error["port"]) == (403, "ks_egress_denied", "other.example.com", 443)
        assert f"PUT /api/v2/sessions/{at.session.id}/egress" in error["next_action"]
        assert (await at.refusal(f"CONNECT {HOST}:22 HTTP/1.1\r\n\r\n"))[1]["code"] == "ks_egress_denied"
        assert (await at.refusal("CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n"))[1]["code"] == "ks_egress_address"
        assert (await at.refusal("GET / HTTP/1.1\r\n\r\n"))[0] == 400
        assert (await at.refusal(f"POST http://{HOST}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"))[0] == 411
        assert (await at.refusal(b"GET / HTTP/1.1\r\nA: " + b"x" * (2 * HEAD_BYTES)))[0] == 431
        assert await at.ask(f"HEAD http://{HOST}:22/ HTTP/1.1\r\n\r\n") == (403, b"")
        at.world.names.pop(HOST)
        assert (await at.refusal(CONNECT))[1]["code"] == "ks_egress_unresolved"
        assert at.world.dialled == []
        at.world.names[HOST] = [[PUBLIC, "93.184.216.35"]]
        at.world.refuses.add(PUBLIC)
        await at.tunnel()  # by its second address
        at.world.refuses.add("93.184.216.35")
        assert (await at.refusal(CONNECT))[1]["code"] == "ks_egress_unreachable"

    run(owner.account, act)


def test_a_channel_that_is_not_its_sessions_any_more_and_a_session_that_does_not_run_are_refused(owner: Tenant) -> None:
    async def act(at: Outside) -> None:
        for other in ({"epoch": 0}, {"account_id": "acct_of_another"}, {"session_id": "gone"}):
            assert (await at.refusal(CONNECT, port=await at.door(channel(at.session, **other))))[1]["code"] == "ks_epoch_mismatch"
        await at.moved(runtime_state=SessionState.PARKED)
        assert (await at.refusal(CONNECT))[1]["code"] == "ks_epoch_mismatch"
        assert at.world.dialled == []
        await at.moved(runtime_state=SessionState.RESUMING)  # its processors run before it counts as running
        assert (await at.ask(CONNECT))[0] == 200

    run(owner.account, act)


def test_a_change_cuts_what_it_denies_by_a_reset_and_leaves_the_rest(owner: Tenant) -> None:
    async def act(at: Outside) -> None:
        at.world.names["kept.example.com"] = [[PUBLIC]]
        kept = Rule("kept.example.com", (443,))
        await at.allow(kept, Rule(HOST, (443,)))
        cut, going_on = await at.tunnel(), await at.tunnel("kept.example.com:443")
        await at.allow(kept)
        with pytest.raises(ConnectionResetError):
            await cut[0].read()
        going_on[1].write(b"still here")
        assert await going_on[0].readexactly(10) == b"still here"
        await at.moved(epoch=2)
        with pytest.raises(ConnectionResetError):
            await going_on[0].read()

    run(owner.account, act)


def test_a_policy_that_changes_while_the_host_is_connected_lets_nothing_through(owner: Tenant) -> None:
    async def act(at: Outside) -> None:
        sound = at.world.dial

        async def slowly(*where: object) -> object:
            await at.allow()
            return await sound(*where)  # type: ignore[arg-type]

        at.egress._dial = slowly  # type: ignore[assignment]
        assert (await at.refusal(CONNECT + "early"))[1]["code"] == "ks_egress_denied"
        assert at.world.dialled
        assert not at.world.heard

    run(owner.account, act)


def test_a_side_that_breaks_breaks_the_other(owner: Tenant) -> None:
    async def act(at: Outside) -> None:
        _, writer = await at.tunnel()
        abort(writer.transport)
        await asyncio.wait_for(at.world.broken.wait(), 10)

    run(owner.account, act)


def test_what_was_connected_and_refused_is_counted_and_shown_in_bounded_room(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_LINES", 2)

    async def act(at: Outside) -> None:
        assert (await at.ask(CONNECT + "hello"))[0] == 200
        for _ in range(3):
            await at.refusal("CONNECT other.example.com:443 HTTP/1.1\r\n\r\n")
        await watch.write(at.egress)
        told = await sync_to_async(egress_use.of_session)(at.session)
        assert (told.connections, told.refusals, told.sent_bytes, told.received_bytes) == (1, 3, 5, 5)
        assert {(one.host, one.outcome, one.connections) for one in told.lines} == {
            (HOST, "connected", 1), ("other.example.com", "denied", 3),
        }  # fmt: skip
        await at.refusal("CONNECT 10.0.0.1:443 HTTP/1.1\r\n\r\n")
        await at.ask(CONNECT)
        await watch.write(at.egress)
        told = await sync_to_async(egress_use.of_session)(at.session)
        assert (told.connections, told.refusals, len(told.lines)) == (2, 4, 2)
        await at.moved(runtime_state=SessionState.DELETING)
        await at.refusal("CONNECT 10.0.0.1:443 HTTP/1.1\r\n\r\n")
        await watch.write(at.egress)
        assert (await sync_to_async(EgressSum.objects.get)()).refusals == 4

    run(owner.account, act)


def test_a_machine_has_so_many_connections_at_a_time_and_is_told_so(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_OPEN", 2)

    async def act(at: Outside) -> None:
        first, _ = await at.tunnel(), await at.tunnel()
        status, error = await at.refusal(CONNECT)
        assert (status, error["code"]) == (429, "ks_too_many")
        first[1].write_eof()
        await first[0].read()
        await until(lambda: _fewer(at, 2))
        await at.tunnel()

    run(owner.account, act)


async def _fewer(at: Outside, most: int) -> bool:
    return at.egress.connections < most


def test_silence_and_a_database_that_is_away_end_in_an_answer_or_a_reset(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:

    async def act(at: Outside) -> None:
        with monkeypatch.context() as hasty:
            hasty.setattr(proxy, "HEAD_SECONDS", 0.05)
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            writer.write(b"CONNECT")
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        idle = await at.tunnel()
        monkeypatch.setattr(watch, "IDLE_SECONDS", 0.0)
        with pytest.raises(ConnectionResetError):
            await idle[0].read()
        monkeypatch.setattr(watch, "IDLE_SECONDS", 600.0)
        blind = await at.tunnel()
        monkeypatch.setattr(watch, "BLIND_SECONDS", 0.0)
        await at.egress.database.close()
        with pytest.raises(ConnectionResetError):
            await blind[0].read()
        status, error = await at.refusal(CONNECT)
        assert (status, error["code"]) == (503, "ks_unavailable")

    run(owner.account, act)


def test_whose_machine_it_is_may_be_known_later_and_an_end_in_order_waits_for_what_moves(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(at: Outside) -> None:
        async def nobody() -> None:
            """It is not known yet."""

        status, error = await at.refusal(CONNECT, port=await at.door(nobody))
        assert (status, error["code"]) == (503, "ks_unavailable")
        door = at.doors[0]
        moving, idle = await at.tunnel(), await at.tunnel()
        await door.shut()
        with pytest.raises(ConnectionRefusedError):
            await at.tunnel()
        draining = asyncio.create_task(door.drain())
        moving[1].write(b"still served")
        assert await moving[0].readexactly(12) == b"still served"
        assert not draining.done()
        moving[1].write_eof()
        assert await moving[0].read() == b""
        monkeypatch.setattr(server, "DRAIN_SECONDS", 0.0)
        with pytest.raises(ConnectionResetError):
            await idle[0].read()
        await draining

    run(owner.account, act)
