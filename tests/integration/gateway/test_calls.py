"""A model call through the gateway: it leaves with the real key, comes back byte for byte, and is recorded and billed once."""

import gzip
import hashlib
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import Call, CallPiece, ProviderKey, SessionBudget, UsageEntry
from gateway_app.states import CallState, Section
from sessions_app.models import Session
from sessions_app.services import steps
from sessions_app.states import SessionState
from tests.integration.gateway.house import BODY, PROVIDER_KEY, STREAM, House, run
from tests.support.fleet import Tenant

pytestmark = pytest.mark.django_db(transaction=True)

PATHS = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/fake-model:streamGenerateContent?alt=sse",
}


@sync_to_async
def recorded(section: Section = Section.RESPONSE) -> bytes:
    """What the one call has recorded, opened."""
    call = Call.objects.get()
    pieces = CallPiece.objects.filter(call=call, section=section).order_by("number")
    return b"".join(steps.unseal.call(call.account_id, bytes(piece.sealed)) for piece in pieces)


@sync_to_async
def call() -> Call:
    return Call.objects.get()


@sync_to_async
def spent() -> tuple[int, int, int]:
    row = SessionBudget.objects.get()
    return row.spent_tokens, row.billed_calls, row.unknown_calls


def test_an_answer_comes_back_as_the_provider_gave_it_and_is_recorded_whole(owner: Tenant) -> None:
    async def act(at: House) -> None:
        got = await at.ask()
        assert (got.status, got.json["type"], got.headers["request-id"]) == (200, "message", "req_fake_1")
        assert await recorded() == got.body
        assert await recorded(Section.REQUEST) == json.dumps(BODY).encode()

    run(owner.account, act)


@pytest.mark.parametrize("api", list(PATHS))
def test_a_stream_of_each_api_passes_byte_for_byte_and_its_tokens_are_the_providers_own(owner: Tenant, api: str) -> None:
    async def act(at: House) -> None:
        got = await at.ask(STREAM, path=PATHS[api])
        assert got.status == 200
        assert await recorded() == got.body
        row, bill = await call(), at.bill
        assert row.state == CallState.COMPLETE
        assert (row.input_tokens, row.output_tokens) == (bill["input_tokens"], bill["output_tokens"])
        assert await spent() == (bill["input_tokens"] + bill["output_tokens"], 1, 0)

    run(owner.account, act)


def test_the_provider_gets_its_own_key_and_the_machine_has_never_seen_it(owner: Tenant) -> None:
    async def act(at: House) -> None:
        got = await at.ask()
        assert at.bill["lines"][0]["key_last4"] == PROVIDER_KEY[-4:]
        assert PROVIDER_KEY not in repr(got)
        assert PROVIDER_KEY.encode() not in await sync_to_async(lambda: bytes(ProviderKey.objects.first().secret))()  # type: ignore[union-attr]

    run(owner.account, act)


def test_what_is_recorded_is_sealed_at_rest(owner: Tenant) -> None:
    async def act(at: House) -> None:
        await at.ask({**BODY, "system": "a planted prompt"})
        stored = await sync_to_async(lambda: b"".join(bytes(piece.sealed) for piece in CallPiece.objects.all()))()
        assert stored
        assert b"planted" not in stored

    run(owner.account, act)


def test_a_client_that_did_not_ask_for_a_chats_usage_gets_no_chunk_of_it_and_it_is_counted_all_the_same(owner: Tenant) -> None:
    async def act(at: House) -> None:
        got = await at.ask(STREAM, path=PATHS["chat"])
        assert b"prompt_tokens" not in got.body
        assert got.body.endswith(b"data: [DONE]\n\n")
        row = await call()
        assert row.output_tokens == 12
        assert row.body_sha256 != row.sent_sha256

    run(owner.account, act)


def test_a_gzipped_request_is_read_and_goes_on_unpacked(owner: Tenant) -> None:
    async def act(at: House) -> None:
        raw = json.dumps(BODY).encode()
        got = await at.ask(gzip.compress(raw), Content_Encoding="gzip")
        assert got.status == 200
        assert at.bill["lines"][0]["body_sha256"] == hashlib.sha256(raw).hexdigest()

    run(owner.account, act)


@pytest.mark.parametrize("status", [400, 429, 500, 529])
def test_a_providers_refusal_is_passed_on_and_costs_nothing(owner: Tenant, status: int) -> None:
    async def act(at: House) -> None:
        at.act(status=status, retry_after="7")
        got = await at.ask()
        assert (got.status, got.headers["Retry-After"]) == (status, "7")
        assert (await call()).state == CallState.REFUSED
        assert not await sync_to_async(UsageEntry.objects.exists)()

    run(owner.account, act)


@pytest.mark.parametrize("cut", ["reset", "close", "end", "error"])
def test_a_stream_that_breaks_breaks_for_the_client_too_and_its_usage_is_unknown(owner: Tenant, cut: str) -> None:
    async def act(at: House) -> None:
        at.act(cut=cut, events=4)
        got = await at.ask(STREAM)
        row = await call()
        assert (got.whole, row.state, row.output_tokens) == (False, CallState.CUT, None)
        assert await spent() == (0, 1, 1)

    run(owner.account, act)


def test_an_answer_of_a_shape_that_is_not_known_passes_and_is_not_called_complete(owner: Tenant) -> None:
    async def act(at: House) -> None:
        got = await at.ask({**BODY, "input": "x"}, path="/v1/responses/../responses")
        assert got.status in (200, 404)

    run(owner.account, act)


def test_the_end_of_an_answer_is_seen_only_when_its_bill_is_durable(owner: Tenant) -> None:
    async def act(at: House) -> None:
        got = await at.ask(STREAM)
        assert b"message_stop" in got.body
        assert await sync_to_async(UsageEntry.objects.count)() == 1  # no wait in between

    run(owner.account, act)


def test_a_client_that_leaves_does_not_stop_the_record(owner: Tenant) -> None:
    async def act(at: House) -> None:
        at.act(pace_seconds=0.01, words=20)
        async with at.client.post(at.url + "/v1/messages", json=STREAM, headers=_credential(at)) as answer:
            await answer.content.readany()
        await at.gate.drain(10)
        row = await call()
        assert (row.state, row.output_tokens) == (CallState.COMPLETE, 20)

    run(owner.account, act)


def _credential(at: House) -> dict[str, str]:
    from gateway_app.proxy import channel
    from tests.integration.gateway.house import SECRET

    return {"authorization": "Bearer " + channel.credential(at.session.id, SECRET)}


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x_api_key": ""}, "ks_unauthenticated"),
        ({"x_api_key": "ks-guest-" + "0" * 32 + "-" + "0" * 32}, "ks_unauthenticated"),
        ({"x_api_key": "sk-ant-api03-real"}, "ks_provider_key_in_guest"),
    ],
)
def test_without_the_machines_credential_nothing_leaves(owner: Tenant, headers: dict[str, str], code: str) -> None:
    async def act(at: House) -> None:
        got = await at.ask(**headers)
        assert (got.status, got.json["error"]["code"]) == (401, code)
        assert at.bill["calls"] == 0

    run(owner.account, act)


def test_another_sessions_credential_opens_nothing_on_this_channel(owner: Tenant) -> None:
    async def act(at: House) -> None:
        from gateway_app.proxy import channel
        from tests.integration.gateway.house import SECRET

        got = await at.ask(x_api_key=channel.credential("f" * 32, SECRET))
        assert (got.status, at.bill["calls"]) == (401, 0)

    run(owner.account, act)


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"epoch": 9}, 503, "ks_epoch_mismatch"),
        ({"runtime_state": SessionState.PARKED}, 503, "ks_epoch_mismatch"),
        ({"budget_tokens": 0}, 402, "ks_over_budget"),
    ],
)
def test_a_machine_that_may_not_call_is_told_why_and_nothing_leaves(owner: Tenant, change: dict[str, Any], status: int, code: str) -> None:
    async def act(at: House) -> None:
        await sync_to_async(Session.objects.filter(id=at.session.id).update)(**change)
        got = await at.ask()
        assert (got.status, got.json["error"]["code"], got.headers["x-should-retry"]) == (status, code, "false")
        assert at.bill["calls"] == 0

    run(owner.account, act)


def test_a_machine_that_runs_before_its_session_counts_as_running_is_answered(owner: Tenant) -> None:
    async def act(at: House) -> None:
        url = await at.moved(runtime_state=SessionState.RESUMING, epoch=2)
        assert (await at.ask(url=url)).status == 200
        assert (await at.ask()).status == 503  # what ran before it

    run(owner.account, act)


def test_a_key_that_is_disabled_is_used_by_nobody(owner: Tenant) -> None:
    async def act(at: House) -> None:
        await sync_to_async(ProviderKey.objects.update)(enabled=False)
        got = await at.ask()
        assert (got.status, got.json["error"]["code"], at.bill["calls"]) == (403, "ks_no_key", 0)

    run(owner.account, act)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/", 200),
        ("HEAD", "/api/hello", 200),
        ("GET", "/v1/models?limit=1000", 200),
        ("POST", "/v1/messages/count_tokens", 200),
        ("GET", "/v1/responses", 426),
        ("POST", "/v1/files", 404),
        ("GET", "/v1/organizations", 404),
    ],
)
def test_the_small_routes_that_clients_probe_are_answered_and_others_are_let_nowhere(
    owner: Tenant, method: str, path: str, status: int
) -> None:
    async def act(at: House) -> None:
        assert (await at.ask(path=path, method=method)).status == status
        assert not await sync_to_async(Call.objects.exists)()

    run(owner.account, act)
