"""A provider that answers oddly: the call ends, its bill is true, and nothing that was not meant for others leaves."""

import gzip
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app import pricing
from gateway_app.models import Call, UsageEntry
from gateway_app.proxy import pump
from gateway_app.states import CallState
from tests.integration.gateway.house import BODY, PROVIDER_KEY, STREAM, House, run
from tests.integration.gateway.odd import events, http, odd
from tests.integration.gateway.test_replay import resumed
from tests.support.fleet import Tenant
from tests.unit.gateway import answers

pytestmark = pytest.mark.django_db(transaction=True)
GENERATE = "/v1beta/models/gemini-x"


@sync_to_async
def newest() -> Call:
    return Call.objects.latest("started")


def test_a_compressed_answer_is_recorded_and_given_as_what_it_says(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            provider.answer = http(gzip.compress(json.dumps(answers.MESSAGE).encode()), "Content-Encoding: gzip")
            got = await at.ask()
            assert (got.json, got.headers.get("Content-Encoding")) == (answers.MESSAGE, None)
            provider.answer = events(gzip.compress(answers.MESSAGE_STREAM), "Content-Encoding: gzip")
            assert (await at.ask(STREAM)).body == answers.MESSAGE_STREAM
            assert (await newest()).cache_read_tokens == 500

    run(owner.account, act)


@pytest.mark.parametrize("stays", [True, False])
def test_an_answer_is_whole_with_its_last_event_whatever_becomes_of_its_connection(
    owner: Tenant, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pump, "LAST_SECONDS", 0.01)

    async def act(at: House) -> None:
        async with odd(at) as provider:
            broken = f"{len(answers.MESSAGE_STREAM):x}\r\n".encode() + answers.MESSAGE_STREAM + b"\r\n"  # no end of its chunks
            provider.answer, provider.stays = events(broken, "Transfer-Encoding: chunked"), stays
            got = await at.ask(STREAM)
            assert (got.whole, got.body, (await newest()).state) == (True, answers.MESSAGE_STREAM, CallState.COMPLETE)

    run(owner.account, act)


def test_a_redirect_is_followed_nowhere_with_the_key(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            place = at.gate.settings.bases[at_provider()]
            provider.answer = http(b"{}", f"Location: {place}/elsewhere", status="307 Temporary Redirect")
            for path, method in (("/v1/messages", "POST"), ("/v1/models", "GET"), ("/v1/messages/count_tokens", "POST")):
                async with at.client.request(
                    method, at.url + path, json=BODY if method == "POST" else None, headers=_sent(at), allow_redirects=False
                ) as got:
                    assert got.status == 307
            assert [asked.split(b" ")[1] for asked in provider.asked] == [b"/v1/messages", b"/v1/models", b"/v1/messages/count_tokens"]

    run(owner.account, act)


def at_provider() -> Any:
    from gateway_app.states import Provider

    return Provider.ANTHROPIC


def _sent(at: House) -> dict[str, str]:
    from gateway_app.proxy import channel
    from tests.integration.gateway.house import SECRET

    return {"x-api-key": channel.credential(at.session.id, SECRET), "anthropic-version": "2023-06-01"}


@pytest.mark.parametrize("model", ["nul \x00", "half \ud83d", "x" * 5000, 7, None])
def test_a_name_of_a_model_that_no_database_keeps_ends_a_call_like_any_other(owner: Tenant, model: Any) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            provider.answer = http(json.dumps({**answers.MESSAGE, "model": model}).encode())
            got = await at.ask({**BODY, "model": model})
            assert (got.status, (await newest()).state) == (200, CallState.COMPLETE)
            assert await sync_to_async(UsageEntry.objects.count)() == 1

    run(owner.account, act)


def test_a_header_that_is_no_text_is_left_out(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            provider.answer = http(json.dumps(answers.MESSAGE).encode(), "x-odd: \xff\xfe", "x-even: yes")
            got = await at.ask()
            assert (got.status, "x-odd" in got.headers, got.headers["x-even"]) == (200, False, "yes")

    run(owner.account, act)


def test_events_that_come_unasked_are_told_as_what_was_asked_for_after_a_resume(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            provider.answer = events(answers.MESSAGE_STREAM)
            await at.ask()
            again = await at.ask(url=await resumed(at))
            assert (again.json["content"], len(provider.asked)) == (answers.MESSAGE["content"], 1)

    run(owner.account, act)


def test_a_stream_of_gemini_that_is_no_events_is_one_list_and_is_counted(owner: Tenant) -> None:
    async def act(at: House) -> None:
        async with odd(at) as provider:
            chunks = [json.loads(line[6:]) for line in answers.GENERATE_STREAM.decode().split("\r\n\r\n") if line]
            provider.answer = http(json.dumps(chunks).encode())
            got = await at.ask({}, path=f"{GENERATE}:streamGenerateContent")
            call = await newest()
            assert (got.json, call.state, call.output_tokens) == (chunks, CallState.COMPLETE, 8)
            provider.answer = events(answers.GENERATE_STREAM)
            other = await at.ask({}, path=f"{GENERATE}:streamGenerateContent?alt=sse", url=await resumed(at))
            assert (other.body, len(provider.asked)) == (answers.GENERATE_STREAM, 2)  # a list answers nobody who wants events

    run(owner.account, act)


def test_a_pump_that_fails_in_a_way_that_nobody_foresaw_ends_its_call_and_keeps_nobody_waiting(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError(PROVIDER_KEY)

    async def act(at: House) -> None:
        monkeypatch.setattr(pricing, "microusd", fail)
        got = await at.ask()
        assert (got.status, got.json["error"]["code"], got.headers["x-should-retry"]) == (503, "ks_not_recorded", "true")
        assert not (await at.ask(STREAM)).whole
        assert not at.gate.pumps  # what no process reads ends as unknown

    run(owner.account, act)


def test_a_stream_that_is_replayed_to_a_client_of_the_other_transport_tells_usage_to_who_asks_for_it(owner: Tenant) -> None:
    chat = "/v1/chat/completions"

    async def act(at: House) -> None:
        await at.ask(STREAM, path=chat)
        whole = (await at.ask(BODY, path=chat, url=await resumed(at))).json
        assert whole["usage"]["total_tokens"] == at.bill["input_tokens"] + at.bill["output_tokens"]
        other = {**BODY, "seed": 1}
        await at.ask(other, path=chat, url=await at.moved(epoch=2))
        streamed = await at.ask({**other, "stream": True}, path=chat, url=await _again(at))
        assert b'"choices": []' not in streamed.body
        assert at.bill["calls"] == 2

    async def _again(at: House) -> str:
        from tests.integration.gateway.test_replay import open_window

        await open_window(at, epoch=3)
        return await at.moved(epoch=3)

    run(owner.account, act)
