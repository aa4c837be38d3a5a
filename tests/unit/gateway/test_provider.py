"""The fake provider: it speaks as the real ones do, breaks as it is told, and its bill tells what reached it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from gateway_app.streams.reader import End
from gateway_app.streams.sse import Splitter
from keepstate_site.provider.app import Provider
from tests.unit.gateway.test_readers import KINDS

PATHS = {
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/fake:streamGenerateContent?alt=sse",
}
every = pytest.mark.parametrize("kind", list(PATHS))


@asynccontextmanager
async def provider() -> AsyncIterator[tuple[ClientSession, str]]:
    server = TestServer(Provider().application())
    await server.start_server()
    try:
        async with ClientSession() as session:
            yield session, str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


def run(act: Callable[[ClientSession, str], Awaitable[None]]) -> None:
    import asyncio

    async def all_of_it() -> None:
        async with provider() as (session, url):
            await act(session, url)

    asyncio.run(all_of_it())


def body(kind: str) -> dict[str, Any]:
    return {"model": "fake", "stream": True, "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": "Hi"}]}


async def streamed(session: ClientSession, url: str, kind: str) -> Any:
    reader, splitter = KINDS[kind][0](), Splitter()
    async with session.post(url + PATHS[kind], json=body(kind)) as answer:
        async for piece in answer.content.iter_any():
            for event in splitter.feed(piece):
                reader.take(event)
    return reader


@every
def test_a_stream_of_each_api_is_complete_and_equal_to_its_bill(kind: str) -> None:
    async def act(session: ClientSession, url: str) -> None:
        reader = await streamed(session, url, kind)
        bill = await (await session.get(url + "/fake/bill")).json()
        assert reader.seen.end == End.COMPLETE
        assert (reader.seen.tokens.input, reader.seen.tokens.output) == (bill["input_tokens"], bill["output_tokens"])
        assert (bill["calls"], bill["lines"][0]["outcome"]) == (1, "complete")

    run(act)


@every
@pytest.mark.parametrize("cut", ["reset", "close", "end", "error"])
def test_a_cut_stream_breaks_as_the_script_says_and_is_on_the_bill(kind: str, cut: str) -> None:
    async def act(session: ClientSession, url: str) -> None:
        await session.post(url + "/fake/script", json={"acts": [{"cut": cut, "events": 3}]})
        if cut in ("reset", "close"):
            with pytest.raises(aiohttp.ClientError):
                await streamed(session, url, kind)
        else:
            assert (await streamed(session, url, kind)).seen.end == (End.ERROR if cut == "error" else End.OPEN)
        line = (await (await session.get(url + "/fake/bill")).json())["lines"][0]
        assert (line["outcome"], line["delivered"]) == (cut, 3)

    run(act)


def test_an_error_is_refused_and_not_billed() -> None:
    async def act(session: ClientSession, url: str) -> None:
        await session.post(url + "/fake/script", json={"acts": [{"status": 429, "retry_after": "7"}]})
        async with session.post(url + PATHS["anthropic"], json=body("anthropic")) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
        assert (await (await session.get(url + "/fake/bill")).json())["billed_calls"] == 0

    run(act)


def test_the_same_request_gets_the_same_words_and_another_id() -> None:
    async def act(session: ClientSession, url: str) -> None:
        found = []
        for _ in range(2):
            async with session.post(url + PATHS["chat"], data=json.dumps({**body("chat"), "stream": False})) as answer:
                found.append(await answer.json())
        assert found[0]["choices"] == found[1]["choices"]
        assert found[0]["id"] != found[1]["id"]

    run(act)


def test_a_script_is_taken_whole_or_not_at_all() -> None:
    fake = Provider()
    scripts: list[Any] = [[], {"act": []}, {"acts": [{"status": 500}, {"statuz": 1}]}, {"acts": [{"cut": "nowhere"}]}]
    for wrong in scripts:
        with pytest.raises((ValueError, TypeError)):
            fake.follow(wrong)
    assert fake.script.take().status == 200
    fake.follow({"acts": [{"status": 529}], "default": {"words": 3}})
    assert [(act.status, act.words) for act in (fake.script.take(), fake.script.take())] == [(529, 12), (200, 3)]


def test_an_answer_is_held_where_its_script_says_until_it_is_released() -> None:
    async def act(session: ClientSession, url: str) -> None:
        await session.post(url + "/fake/script", json={"acts": [{"hold": True, "events": 3}]})
        async with session.post(url + PATHS["chat"], data=json.dumps(body("chat"))) as answer:
            held = [await answer.content.readuntil(b"\n\n") for _ in range(3)]
            line = (await (await session.get(url + "/fake/bill")).json())["lines"][0]
            assert (len(held), line["delivered"], line["outcome"]) == (3, 3, "open")
            await session.post(url + "/fake/release")
            assert (await answer.content.read()).endswith(b"data: [DONE]\n\n")

    run(act)
