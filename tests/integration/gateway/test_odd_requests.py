"""A machine that asks oddly: refused or passed on in bounds, nothing is guessed, and its connection can be used again."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import Call, CallPiece
from gateway_app.proxy import body as bodies
from gateway_app.proxy import channel, gateway, server
from gateway_app.services import steer
from gateway_app.states import CallState, Section
from sessions_app.services import steps
from tests.integration.gateway.house import BODY, SECRET, STREAM, House, run, until
from tests.integration.gateway.odd import http, odd, raw
from tests.support.fleet import Tenant
from tests.unit.gateway import answers

pytestmark = pytest.mark.django_db(transaction=True)
KIB, MIB = 1024, 1024 * 1024


def head(at: House, *lines: str, path: str = "/v1/messages") -> bytes:
    token = channel.credential(at.session.id, SECRET)
    told = [f"POST {path} HTTP/1.1", "Host: x", f"x-api-key: {token}", "anthropic-version: 2023-06-01", *lines]
    return "\r\n".join(told).encode("latin-1") + b"\r\n\r\n"


@sync_to_async
def states() -> list[str]:
    return list(Call.objects.order_by("started").values_list("state", flat=True))


def test_a_machine_has_so_many_connections_and_one_that_it_closes_makes_room(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MACHINE_CONNECTIONS", 2)

    async def act(at: House) -> None:
        address = urlsplit(at.url)
        open_ones = [await asyncio.open_connection(address.hostname, address.port) for _ in range(2)]
        for reader, writer in open_ones:
            writer.write(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        reader, _ = await asyncio.open_connection(address.hostname, address.port)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        open_ones[0][1].close()
        await until(partial(_answers, at))
        open_ones[1][1].close()

    run(owner.account, act)


async def _answers(at: House) -> bool:
    try:
        async with aiohttp.ClientSession() as client, client.head(at.url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


HALF = {**BODY, "system": "half \ud83d", "model": "m\x00"}


def test_half_a_character_in_a_request_goes_on_as_it_came_steered_or_with_usage_asked_for(owner: Tenant) -> None:
    async def act(at: House) -> None:
        await sync_to_async(steer.add)(at.session, "go left")
        assert (await at.ask(HALF)).status == 200
        assert (await at.ask({**HALF, "stream": True}, path="/v1/chat/completions")).status == 200
        assert await states() == [CallState.COMPLETE] * 2

    run(owner.account, act)


def _nested(depth: int) -> bytes:
    return b'{"stream": true, "a": ' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


ODD_BODIES: dict[str, bytes] = {
    "nested": _nested(600),
    "nested more": _nested(900),
    "nested without end": b'{"a":' * 100_000,
    "a long number": b'{"n": ' + b"9" * 5000 + b"}",
    "no json": b"\x00\xff\xfe",
    "no number": b'{"temperature": NaN}',
    "a key twice": b'{"model": "a", "model": "b"}',
    "empty": b"",
}


def test_a_body_of_any_kind_goes_on_byte_for_byte_or_is_refused_in_words_and_never_fails(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            provider.answer = http(json.dumps(answers.MESSAGE).encode())
            for path in ("/v1/messages", "/v1/chat/completions", "/v1/responses"):
                for what, data in ODD_BODIES.items():
                    before = len(provider.asked)
                    got = await at.ask(data, path=path)
                    assert got.status in (200, 400), what
                    assert len(provider.asked) - before == (got.status == 200), what
                    if got.status == 200 and path == "/v1/messages":
                        assert provider.asked[-1].endswith(b"\r\n\r\n" + data), what

    run(owner.account, act)


@pytest.mark.parametrize(
    ("header", "status"),
    [("x-api-key: \xff\xfe", 401), ("x-odd: \xff", 200), ("x-keepstate-relay: a b", 400), ("x-keepstate-relay: \xff", 200)],
)
def test_a_header_that_is_no_text_or_no_name_breaks_nothing(owner: Tenant, header: str, status: int) -> None:
    async def act(at: House) -> None:
        data = json.dumps(BODY).encode()
        lines = [header, f"content-length: {len(data)}", "connection: close"]
        sent = head(at, *lines) + data
        if status == 401:
            sent = sent.replace(f"x-api-key: {channel.credential(at.session.id, SECRET)}\r\n".encode(), b"")
        assert (await raw(at, sent)).startswith(f"HTTP/1.1 {status}".encode())

    run(owner.account, act)


def test_betas_that_come_in_lines_of_their_own_all_reach_the_provider_and_nothing_of_this_hop_does(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            provider.answer = http(json.dumps(answers.MESSAGE).encode())
            data = json.dumps(BODY).encode()
            lines = ["anthropic-beta: one", "anthropic-beta: two", "connection: x-hop, close", "x-hop: 1", f"content-length: {len(data)}"]
            await raw(at, head(at, *lines) + data)
            asked = provider.asked[0].lower()
            assert b"anthropic-beta: one, two\r\n" in asked
            assert (b"x-hop" in asked, b"accept-encoding: identity" in asked) == (False, True)

    run(owner.account, act)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1beta/models/x%3Fy:generateContent"),
        ("POST", "/v1beta/models/..%2Ffiles:generateContent"),
        ("POST", "/v1beta/models/..:generateContent"),
        ("GET", "/v1/models/..%2Ffiles"),
        ("GET", "/v1/models/..%252Ffiles"),
        ("GET", "/v1/models/x%23"),
        ("GET", "/v1beta/models/%00"),
        ("POST", "/v1/messages%2Fbatches"),
        ("POST", "/v1/./messages"),
        ("POST", "//v1/messages"),
    ],
)
def test_a_path_that_a_provider_could_read_as_another_is_let_nowhere(owner: Tenant, method: str, path: str) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            sent = head(at, "content-length: 2", path=path).replace(b"POST", method.encode(), 1) + b"{}"
            assert (await raw(at, sent)).startswith(b"HTTP/1.1 404")
            assert provider.asked == []

    run(owner.account, act)


def test_a_credential_in_the_address_goes_no_further_however_it_is_written(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            provider.answer = http(b"{}")
            token = channel.credential(at.session.id, SECRET)
            path = f"/v1beta/models/gemini-x:generateContent?key=&a=1%262&%6bey={token}"
            data = b"POST " + path.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
            assert (await raw(at, data)).startswith(b"HTTP/1.1 200")
            assert provider.asked[0].startswith(b"POST /v1beta/models/gemini-x:generateContent?a=1%262 HTTP/1.1")
            assert token.encode() not in provider.asked[0]
            assert (await sync_to_async(Call.objects.get)()).path == "/v1beta/models/gemini-x:generateContent"

    run(owner.account, act)


def test_a_response_in_the_background_is_refused_before_it_costs_anything(owner: Tenant) -> None:
    async def act(at: House) -> None:
        got = await at.ask({"model": "m", "input": "x", "background": True}, path="/v1/responses")
        assert (got.status, got.json["error"]["code"], at.bill["calls"]) == (400, "ks_background_refused", 0)

    run(owner.account, act)


def _behind(data: bytes) -> bytes:
    return gzip.compress(b"{}") + data


ODD_PACKINGS: dict[str, tuple[bytes, int]] = {
    "without its end": (gzip.compress(b"{}")[:-4], 400),
    "no gzip": (b"no gzip", 400),
    "another behind it": (_behind(gzip.compress(b"{}")), 400),
    "something behind it": (_behind(b"x" * 100_000), 400),
    "too large": (gzip.compress(b" " * (4 * MIB)), 413),
    "in bounds": (gzip.compress(json.dumps(BODY).encode() + b" " * 300_000), 200),
}


@pytest.mark.parametrize(("packed", "status"), ODD_PACKINGS.values(), ids=ODD_PACKINGS)  # their bytes hold the time at which they are made
def test_a_packed_body_is_whole_and_in_its_bounds_or_refused_and_the_connection_goes_on(
    owner: Tenant, packed: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_BYTES", MIB)

    async def act(at: House) -> None:
        assert (await at.ask(packed, Content_Encoding="gzip")).status == status
        assert (await at.ask()).status == 200

    run(owner.account, act)


def test_a_body_without_end_is_refused_where_the_bound_is_whatever_its_packing_makes_of_it(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_BYTES", 64 * KIB)
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    empty = packer.flush(zlib.Z_FULL_FLUSH) + b"\x00\x00\x00\xff\xff" * 40_000  # blocks of nothing: however many come, nothing comes out

    async def act(at: House) -> None:
        for data, lines in ((empty, ["content-encoding: gzip"]), (b"x" * 200_000, [])):
            chunk = f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n"
            assert (await raw(at, head(at, "transfer-encoding: chunked", *lines) + chunk)).startswith(b"HTTP/1.1 413")
        assert at.bill["calls"] == 0

    run(owner.account, act)


def test_a_body_that_keeps_silent_is_not_waited_for_for_ever(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SILENT_SECONDS", 0.05)

    async def act(at: House) -> None:
        got = await raw(at, head(at, "content-length: 100") + b"{")
        assert (got[:12], b"ks_too_slow" in got, at.bill["calls"]) == (b"HTTP/1.1 408", True, 0)

    run(owner.account, act)


def test_who_waits_to_be_told_to_send_its_body_is_told_so_and_chunks_are_put_together(owner: Tenant) -> None:
    async def act(at: House) -> None:
        data = json.dumps(BODY).encode()
        told = await raw(at, head(at, "expect: 100-continue", f"content-length: {len(data)}", "connection: close") + data)
        assert told.startswith(b"HTTP/1.1 100 Continue")
        chunks = b"".join(f"{len(one):x}\r\n".encode() + one + b"\r\n" for one in (data[:1], data[1:20], data[20:], b""))
        assert (await raw(at, head(at, "transfer-encoding: chunked") + chunks)).startswith(b"HTTP/1.1 200")
        assert len({line["body_sha256"] for line in at.bill["lines"]}) == 1

    run(owner.account, act)


def test_a_refused_request_leaves_the_connection_to_the_next_one(owner: Tenant) -> None:
    async def act(at: House) -> None:
        refused: list[Callable[[], Awaitable[Any]]] = [
            lambda: at.ask(path="/v1/files"),
            lambda: at.ask(x_api_key="none"),
            lambda: at.ask(b"x" * 100_000, Content_Encoding="br"),
        ]
        for ask in refused:
            assert (await ask()).status >= 400
            assert (await at.ask(STREAM)).whole

    run(owner.account, act)


def test_the_largest_request_passes_and_is_recorded_in_pieces_and_no_file_is_made_of_it(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    def spooled(*_: Any, **__: Any) -> Any:
        raise AssertionError("a request was put on the disk")

    for name in ("TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "mkstemp"):
        monkeypatch.setattr(tempfile, name, spooled)
    assert bodies.BODY_BYTES == 64 * MIB
    monkeypatch.setattr(bodies, "BODY_BYTES", 8 * MIB)
    start = json.dumps({**BODY, "system": ""}).encode()[:-2]
    data = start + b"x" * (bodies.BODY_BYTES - len(start) - 2) + b'"}'

    async def act(at: House) -> None:
        assert (await at.ask(data)).status == 200
        assert (await at.ask(data + b" ")).status == 413
        assert at.bill["calls"] == 1
        assert await sync_to_async(_first_and_last)() == (data[:100], data[-100:])

    run(owner.account, act)


def test_one_machine_does_not_fill_the_memory_of_all_with_requests_that_wait(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "MACHINE_BYTES", 100_000)
    large = {**BODY, "system": "x" * 70_000}

    async def act(at: House) -> None:
        at.act(hold=True)
        first = asyncio.create_task(at.ask(large))
        await until(lambda: _asked_once(at))
        refused = await at.ask(large)
        assert (refused.status, refused.json["error"]["code"], refused.headers["x-should-retry"]) == (503, "ks_busy", "true")
        assert (await at.ask()).status == 200
        at.fake.release()
        assert ((await first).status, at.bill["calls"]) == (200, 2)
        assert (await at.ask(large)).status == 200

    run(owner.account, act)


async def _asked_once(at: House) -> bool:
    return bool(at.bill["calls"] == 1)


def _first_and_last() -> tuple[bytes, bytes]:
    call = Call.objects.get()
    pieces = CallPiece.objects.filter(call=call, section=Section.REQUEST).order_by("number")
    assert pieces.count() == 8
    first, last = (steps.unseal.call(call.account_id, bytes(pieces[place].sealed)) for place in (0, 7))
    return first[:100], last[-100:]
