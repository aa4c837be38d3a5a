"""What programs may ask of the relay, and what it refuses by itself."""

import asyncio
import gzip
import json
import socket
from urllib.parse import urlsplit

import pytest

from gateway_app.proxy import channel as channels
from tests.integration.gateway.house import BODY, MESSAGES, SECRET, House, run
from tests.integration.gateway.relay import Relay, relay
from tests.support.fleet import Tenant
from workers.guest.relay import asked as bounds
from workers.guest.relay.service import CONNECTIONS

pytestmark = pytest.mark.django_db(transaction=True)
RAW = json.dumps(BODY).encode()


async def said(through: Relay, data: bytes, *, after: bytes = b"", then: bytes = b"") -> bytes:
    """All that the relay answers to these bytes, up to its end of the connection; `after` it said that, `then` is sent."""
    reader, writer = await asyncio.open_connection(urlsplit(through.url).hostname, urlsplit(through.url).port)
    try:
        writer.write(data)
        if after:
            await reader.readuntil(after)
            writer.write(then)
        return await reader.read()
    finally:
        writer.close()


def head(at: House, *more: str, last: bool = True) -> bytes:
    lines = [f"POST {MESSAGES} HTTP/1.1", "Host: x", f"X-Api-Key: {channels.credential(at.session.id, SECRET)}"]
    lines += ["Anthropic-Version: 2023-06-01", *more, *(["Connection: close"] if last else [])]
    return "\r\n".join([*lines, "", ""]).encode()


def test_a_body_may_come_in_chunks_and_after_a_word_to_go_on(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with relay(at) as through:
            chunks = b"5;x=y\r\n" + RAW[:5] + b"\r\n" + b"%x\r\n" % len(RAW[5:]) + RAW[5:] + b"\r\n0\r\nTrailer: x\r\n\r\n"
            assert b" 200 " in await said(through, head(at, "Transfer-Encoding: chunked") + chunks)
            asked = head(at, f"Content-Length: {len(RAW)}", "Expect: 100-continue")
            assert b" 200 " in await said(through, asked, after=b"HTTP/1.1 100 Continue\r\n\r\n", then=RAW)
            assert at.bill["calls"] == 2

    run(owner.account, act)


def test_requests_follow_each_other_on_one_connection_even_when_they_come_together(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with relay(at) as through:
            length = f"Content-Length: {len(RAW)}"
            got = await said(through, head(at, length, last=False) + RAW + b"\r\n" + head(at, length) + RAW)
            assert (got.count(b"HTTP/1.1 200 "), at.bill["calls"]) == (2, 2)

    run(owner.account, act)


def test_small_routes_pass_and_packed_bodies_are_handed_on_as_they_are(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with relay(at) as through:
            assert (await at.ask(method="HEAD", path="/", url=through.url)).status == 200
            assert (await at.ask(path="/v1/messages/count_tokens", url=through.url)).json["input_tokens"] > 0
            assert (await at.ask(method="GET", path="/v1/models", url=through.url)).json["data"]
            assert (await at.ask(gzip.compress(RAW), url=through.url, Content_Encoding="gzip")).status == 200
            assert (await at.ask(method="GET", path="/v1/nothing", url=through.url)).status == 404
            assert (await at.ask(url=through.url, x_api_key="sk-ant-real")).status == 401

    run(owner.account, act)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"GET /v1/responses HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 426),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * (bounds.HEAD_BYTES + 1), 431),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (bounds.BODY_BYTES + 1), 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (bounds.BODY_BYTES + 1), 413),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        (b"CONNECT model.example:443 HTTP/1.1\r\n\r\n", 400),
        (b"GET http://model.example/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_for_a_model_is_refused_at_once(owner: Tenant, asked: bytes, status: int) -> None:
    async def act(at: House) -> None:
        async with relay(at) as through:
            assert (await said(through, asked)).startswith(f"HTTP/1.1 {status} ".encode())
            assert through.line.connections == 0

    run(owner.account, act)


def test_one_connection_more_than_there_may_be_is_told_to_come_again(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with relay(at) as through:
            place = (urlsplit(through.url).hostname or "", urlsplit(through.url).port or 0)
            idle = [socket.create_connection(place) for _ in range(CONNECTIONS + 1)]  # one, if whoever looked first has not left yet
            got = await said(through, b"")
            assert got.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in got
            for one in idle:
                one.close()

    run(owner.account, act)
