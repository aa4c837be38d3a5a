"""No prompt, answer, key, credential or name of a model reaches a log from the data path, at any level of any library, faults included."""

import io
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import ProviderKey
from gateway_app.proxy import channel, recorded, steering
from gateway_app.proxy import pump as pumps
from gateway_app.services import steer
from sessions_app.services import steps
from tests.integration.gateway.house import SECRET, House, run
from tests.integration.gateway.odd import events, http, odd, raw
from tests.integration.gateway.test_replay import resumed
from tests.integration.test_log_secrecy import MARK, logged
from tests.support.fleet import Tenant
from tests.unit.gateway import answers

__all__ = ["logged"]
pytestmark = pytest.mark.django_db(transaction=True)

ASKED = {"model": f"m-{MARK}", "system": MARK, "messages": [{"role": "user", "content": MARK}]}
SAID = json.dumps({**answers.MESSAGE, "content": [{"type": "text", "text": MARK}]}).encode()


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError(f"what was said: {MARK}")


async def calls(at: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes well, what breaks, and what fails in a way that nobody foresaw, with the mark in everything that is a customer's."""
    stream: Any = {**ASKED, "stream": True}
    for fate in ({}, {"cut": "reset", "events": 3}, {"cut": "close", "events": 3}, {"cut": "error", "events": 3}, {"status": 500}):
        at.act(**fate)
        await at.ask(stream, X_Title=MARK)
    await at.ask(ASKED, path=f"/v1beta/models/{MARK}:generateContent?key={MARK}&x={MARK}")
    await at.ask(ASKED, path=f"/v1/{MARK}?{MARK}", x_api_key="sk-ant-" + MARK)
    await at.ask(b"{" + MARK.encode(), Content_Encoding="gzip")
    await at.ask(ASKED, X_KeepState_Relay="r-" + MARK, X_KeepState_Offset="3")
    await raw(at, f"{MARK} nonsense {MARK}\r\nx: {MARK}\r\n\r\n".encode())
    async with odd(at) as provider:
        for answer in (http(SAID, f"x-said: {MARK}"), events(b"data: {" + MARK.encode() + b"}\n\n"), MARK.encode() + b"\r\n\r\n"):
            provider.answer = answer
            await _asked(at, {**ASKED, "odd": len(answer)})
    with monkeypatch.context() as broken:
        broken.setattr(pumps, "Splitter", fail)
        await at.ask({**stream, "system": "a pump that fails " + MARK})
    with monkeypatch.context() as broken:
        broken.setattr(steering, "steered", fail)
        assert (await at.ask({**stream, "n": 1})).json["error"]["code"] == "ks_internal"
    with monkeypatch.context() as broken:
        broken.setattr(recorded, "plain", fail)
        await at.ask(stream, url=await resumed(at))


async def _asked(at: House, body: Any) -> None:
    from aiohttp import ClientError

    try:
        await at.ask(body)
    except ClientError:
        return


def test_what_a_machine_says_and_hears_is_in_no_line(owner: Tenant, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(at: House) -> None:
        sealed = await sync_to_async(steps.seal.call)(at.session.account_id, f"sk-ant-{MARK}".encode())
        await sync_to_async(ProviderKey.objects.update)(secret=sealed)
        await sync_to_async(steer.add)(at.session, MARK)
        await calls(at, monkeypatch)

    run(owner.account, act)
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    lines = [line for line in lines if line["logger"] != "aiohttp.access"]  # it is the fake provider's own: the gateway has none
    told = {line["event"] for line in lines}
    assert {"an answer broke", "a pump failed", "a model call failed unexpectedly"} <= told
    assert {line["logger"].partition(".")[0] for line in lines} >= {"asyncio", "gateway_app"}
    failed = next(line for line in lines if line["event"] == "a pump failed")
    assert (failed["reason"], "pump.py" in failed["at"][-2]) == ("RuntimeError", True)  # its cause can be found
    assert [line for line in lines if MARK in json.dumps(line)] == []


def test_a_machines_credential_is_in_no_line(owner: Tenant, logged: io.StringIO) -> None:
    async def act(at: House) -> None:
        at.act(cut="reset", events=2)
        await at.ask(ASKED)
        assert (await at.ask(ASKED, x_api_key=channel.credential("f" * 32, SECRET))).status == 401

    run(owner.account, act)
    assert logged.getvalue()
    assert channel.PREFIX not in logged.getvalue()
