"""The way of a model call: continued, replayed, extended, or sent; docs/operations/gateway.md has it as a table.

  continue   the relay names a call that it has begun: the answer goes on from the byte that it has
  replay     the session's window holds an equal request: its recorded answer, in either transport, once in an epoch
  extend     the request goes on from an answer in the window: the rest of it
  send       admission, then the call's row is committed, then the provider hears of it

What decides who calls is the channel. Nothing of a body, an answer or a credential is logged.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import aiohttp
from aiohttp import web
from psycopg import OperationalError
from psycopg_pool import PoolTimeout

from gateway_app.calls.window import CLOSED_BY_ANOTHER_WAY
from gateway_app.ids import new_call_id
from gateway_app.proxy import answer, channel, headers, recorded, refusals, rows, seals, steering
from gateway_app.proxy import request as requests
from gateway_app.proxy.answer import Answer
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.passed import pass_on
from gateway_app.proxy.pool import Pool
from gateway_app.proxy.pump import Pump, Sending
from gateway_app.proxy.refusals import Refusal
from gateway_app.proxy.request import Asked
from gateway_app.proxy.routes import Route, Way, route
from gateway_app.proxy.rows import Opened, Record, Standing, SteerTaken
from gateway_app.proxy.seals import Seals
from gateway_app.proxy.settings import ProxySettings
from gateway_app.proxy.tail import cut_off
from gateway_app.states import Api, CallState, Provider, Section, Served
from gateway_app.streams.kinds import KINDS
from sessions_app.services.steps import Sealer

log = logging.getLogger(__name__)

#: A process tells so often that it still reads its open calls.
BEAT_SECONDS = 5.0


class Gateway:
    """One process's share. `name` is drawn anew at every start: what an earlier one left open is not this one's."""

    def __init__(self, settings: ProxySettings, database: Pool, client: aiohttp.ClientSession):
        self.settings, self.database, self.client = settings, database, client
        self.name = uuid.uuid4().hex
        self.seals = Seals()
        self.pumps: dict[str, Pump] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, who: Channel, request: web.Request) -> web.StreamResponse:
        """Answers every request, a refusal in the provider's own shape."""
        found = route(request.method, request.path, anthropic="anthropic-version" in request.headers)
        try:
            return await self._handle(who, request, found)
        except Refusal as refusal:
            return _refused(refusal, found.provider)
        except (OperationalError, PoolTimeout):
            log.warning("the database does not answer a model call", extra={"session_id": who.session_id})
            return _refused(refusals.unavailable(), found.provider)

    async def _handle(self, who: Channel, request: web.Request, found: Route) -> web.StreamResponse:
        if found.way == Way.ANSWERED:
            return web.Response(status=200)
        if found.way == Way.UPGRADE_REFUSED:
            raise refusals.upgrade()
        if found.way == Way.REFUSED or found.provider is None:
            raise refusals.not_let_through(request.path)
        asked = await requests.read(request, found)
        self._require_credential(who, asked)
        if found.way == Way.PASSED:
            return await self._pass(who, asked, found.provider)
        return await self._call(who, request, asked)

    def _require_credential(self, who: Channel, asked: Asked) -> None:
        token = channel.shown(asked.headers, asked.query_key)
        if not any(channel.admits(who, token, secret) for secret in self.settings.secrets):
            raise refusals.real_key() if channel.looks_real(token) else refusals.no_credential()

    async def _pass(self, who: Channel, asked: Asked, provider: Provider) -> web.StreamResponse:
        async with self.database.connection() as connection:
            standing = await rows.standing(connection, who, provider)
        _require(standing, provider)
        assert standing is not None
        sealer = await self.seals.of(who.account_id)
        sent = self._upstream(asked, provider, sealer.unseal(standing.key_secret).decode())
        return await pass_on(self.client, asked.method, self.settings.bases[provider] + asked.path, sent, asked.body)

    async def _call(self, who: Channel, request: web.Request, asked: Asked) -> web.StreamResponse:
        """The four tiers, in their order."""
        framed = bool(asked.relay_id)
        sealer = await self.seals.of(who.account_id)
        found = await self._continued(who, asked, sealer) if framed else None
        if found is None:
            found = await self._answered_or_sent(who, asked, sealer)
        whole = False
        try:
            response, whole = await answer.give(request, found, framed=framed)
        finally:  # a caller that leaves cancels this task
            if not whole and not framed:
                self._spawn(self._left(who, found.call_id), f"left {found.call_id}")
        return response

    async def _answered_or_sent(self, who: Channel, asked: Asked, sealer: Sealer) -> Answer:
        provider, api = _known(asked.route)
        async with self.database.connection() as connection:
            standing = await rows.standing(connection, who, provider)
        _require(standing, provider)
        assert standing is not None
        found = await self._from_window(who, asked, standing, sealer) if standing.has_window else None
        if found is not None:
            return found
        if standing.over:
            raise refusals.over_budget(standing.over)
        try:
            pump = await self._open(who, asked, standing, sealer)
        except SteerTaken:
            pump = await self._open(who, asked, replace(standing, steer_id=None), sealer)
        self._start(pump)
        status, pairs = await asyncio.shield(pump.head)
        ping = KINDS[api].ping if asked.streamed and status < 400 else b""
        return Answer(status, pairs, pump.tail.read(0), ping, pump.call.id, Served.UPSTREAM)

    async def _continued(self, who: Channel, asked: Asked, sealer: Sealer) -> Answer | None:
        async with self.database.connection() as connection:
            call_id = await rows.call_of_relay(connection, who, asked.relay_id)
        if call_id is None:
            return None
        return await self._known_answer(who, call_id, asked, sealer, Served.CONTINUED, start=asked.offset)

    async def _from_window(self, who: Channel, asked: Asked, standing: Standing, sealer: Sealer) -> Answer | None:
        provider, api = _known(asked.route)
        by, key_id = asked.relay_id or uuid.uuid4().hex, standing.key_id or ""
        async with self.database.connection() as connection:
            call_id = await rows.take_from_window(connection, who, provider, key_id, asked.prints(), by)
        if call_id is not None:
            return await self._known_answer(who, call_id, asked, sealer, Served.REPLAYED)
        if asked.parsed is None:
            return None
        async with self.database.connection() as connection:
            for entry, candidate in await rows.candidates(connection, who, api, key_id):
                found = await self._rest_of(connection, who, candidate, asked, sealer)
                if found is not None and await rows.take_entry(connection, entry, by):
                    record, rest = found
                    await rows.served_again(connection, who, record, Served.EXTENDED)
                    return rest
        return None

    async def _rest_of(self, connection: Any, who: Channel, call_id: str, asked: Asked, sealer: Sealer) -> tuple[Record, Answer] | None:
        stored = await rows.record(connection, who, call_id, Section.REQUEST)
        answered = await rows.record(connection, who, call_id)
        if stored is None or answered is None or asked.parsed is None:
            return None
        data, body = recorded.plain(answered, sealer), recorded.plain(stored, sealer)
        rest = recorded.rest(answered, data, body, asked.parsed, streamed=asked.streamed)
        return None if rest is None else (answered, rest)

    async def _known_answer(
        self, who: Channel, call_id: str, asked: Asked, sealer: Sealer, served: Served, *, start: int = 0
    ) -> Answer | None:
        """Of a call that is known: out of its pump while that reads, else out of the record; None if it has no answer to give.

        No connection of the database is held while a pump is waited for.
        """
        pump = self.pumps.get(call_id)
        if pump is not None and pump.call.streamed == asked.streamed:
            status, pairs = await asyncio.shield(pump.head)
            ping = KINDS[pump.call.api].ping if asked.streamed and status < 400 else b""
            return Answer(status, pairs, pump.tail.read(start), ping, call_id, served)
        if pump is not None:
            await pump.tail.over()
        async with self.database.connection() as connection:
            found = await rows.record(connection, who, call_id)
            if found is None or found.state != CallState.COMPLETE:
                return _broken(call_id, found) if served == Served.CONTINUED else None
            if served != Served.CONTINUED:
                await rows.served_again(connection, who, found, served)
        return recorded.again(found, recorded.plain(found, sealer), streamed=asked.streamed, served=served, start=start)

    async def _open(self, who: Channel, asked: Asked, standing: Standing, sealer: Sealer) -> Pump:
        """The call's row, committed; the provider has not heard of it yet."""
        provider, api = _known(asked.route)
        steered = steering.steered(api, asked, sealer, standing)
        sending = self._sending(asked, provider, steered.body, sealer.unseal(standing.key_secret).decode())
        call = Opened(
            id=new_call_id(),
            relay_id=asked.relay_id,
            provider=provider,
            api=api,
            path=asked.path[:500],
            model=asked.model,
            streamed=asked.streamed,
            prints=asked.prints(),
            key_id=standing.key_id or "",
            key_last4=standing.key_last4,
            request_bytes=len(asked.body),
            body_sha256=requests.sha256(asked.body),
            sent_sha256=requests.sha256(sending.body),
            steer_id=steered.steer_id,
            pump=self.name,
        )
        pieces = await asyncio.to_thread(seals.in_pieces, sealer, asked.body, rows.PIECE_BYTES)
        closing = sorted(CLOSED_BY_ANOTHER_WAY) if standing.has_window else []
        async with self.database.connection() as connection:
            if not await rows.open_call(connection, who, call, pieces, closing):
                raise refusals.not_running()
        return Pump(who, call, sending, sealer)

    def _sending(self, asked: Asked, provider: Provider, body: bytes, secret: str) -> Sending:
        """OpenAI tells usage of a chat's stream only to who asks for it; the gateway always asks, and keeps the chunk to itself."""
        parsed, drop = asked.parsed, False
        if asked.route.api == Api.CHAT and asked.streamed and parsed is not None:
            options = parsed.get("stream_options")
            drop = not (isinstance(options, dict) and options.get("include_usage"))
            if drop:
                wanted = {**(options if isinstance(options, dict) else {}), "include_usage": True}
                body = json.dumps({**json.loads(body), "stream_options": wanted}, ensure_ascii=False).encode()
        return Sending(self.settings.bases[provider] + asked.path, self._upstream(asked, provider, secret), body, drop)

    def _upstream(self, asked: Asked, provider: Provider, secret: str) -> dict[str, str]:
        bearer = "x-api-key" not in asked.headers and "authorization" in asked.headers
        name, value = channel.key_header(provider, secret, bearer)
        return {**headers.upstream(asked.headers), name: value}

    def _start(self, pump: Pump) -> None:
        """From here on nobody who waits for the answer can stop it from being read."""
        self.pumps[pump.call.id] = pump
        self._spawn(self._run(pump), f"pump {pump.call.id}")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, pump: Pump) -> None:
        try:
            await pump.run(self.client, self.database)
        finally:
            self.pumps.pop(pump.call.id, None)

    async def _left(self, who: Channel, call_id: str) -> None:
        try:
            async with self.database.connection() as connection:
                await rows.undelivered(connection, who, call_id)
        except (OperationalError, PoolTimeout):
            log.warning(
                "a call's caller left, and that could not be written: its retry will be a call of its own", extra={"call_id": call_id}
            )

    async def beat(self) -> None:
        """For as long as the process lives."""
        while True:
            if self.pumps:
                try:
                    async with self.database.connection() as connection:
                        await rows.beat(connection, self.name)
                except (OperationalError, PoolTimeout):
                    log.warning("the database does not answer the gateway's beat")
            await asyncio.sleep(BEAT_SECONDS)

    async def drain(self, seconds: float) -> int:
        """Wait for the pumps to end, so long at most. Returns how many are left."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        return len(self._tasks)


def _require(standing: Standing | None, provider: Provider) -> None:
    if standing is None or not standing.runs:
        raise refusals.not_running()
    if standing.key_id is None:
        raise refusals.no_key(provider)


def _known(found: Route) -> tuple[Provider, Api]:
    assert found.provider is not None
    assert found.api is not None
    return found.provider, found.api


def _broken(call_id: str, found: Record | None) -> Answer | None:
    """The relay's call began and did not end: it is told so, for to send it again would be to pay twice."""
    if found is None:
        return None
    return Answer(found.http_status or 502, found.headers, cut_off(), b"", call_id, Served.CONTINUED)


def _refused(refusal: Refusal, provider: Provider | None) -> web.Response:
    return web.Response(status=refusal.status, body=refusal.body(provider), headers=refusal.headers(), content_type="application/json")
