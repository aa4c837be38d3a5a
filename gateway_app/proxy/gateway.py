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
import psycopg
from aiohttp import web
from django.db import InterfaceError
from django.db import OperationalError as DjangoOperationalError
from psycopg import OperationalError
from psycopg_pool import PoolTimeout

from gateway_app.calls.window import CLOSED_BY_ANOTHER_WAY
from gateway_app.ids import new_call_id
from gateway_app.proxy import answer, call_rows, channel, faults, headers, recorded, refusals, rows, seals, steering
from gateway_app.proxy import request as requests
from gateway_app.proxy import standing as standings
from gateway_app.proxy.admission import Admission
from gateway_app.proxy.answer import Answer
from gateway_app.proxy.call_rows import Opened, RelayKnown, SteerTaken
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.delivery import Deliveries
from gateway_app.proxy.passed import pass_on
from gateway_app.proxy.pool import Pool
from gateway_app.proxy.pump import Pump, Sending
from gateway_app.proxy.refusals import Refusal
from gateway_app.proxy.request import Asked, Delivery
from gateway_app.proxy.routes import Route, Way, route
from gateway_app.proxy.rows import Record
from gateway_app.proxy.seals import Seals
from gateway_app.proxy.settings import ProxySettings
from gateway_app.proxy.standing import Standing
from gateway_app.proxy.tail import cut_off
from gateway_app.states import Api, CallState, Provider, Section, Served
from gateway_app.streams.kinds import KINDS
from gateway_app.streams.reader import encoded
from sessions_app.services.steps import Sealer

log = logging.getLogger(__name__)

#: A process tells so often that it still reads its open calls.
BEAT_SECONDS = 5.0
#: What the two ways to the database raise where it does not answer.
DATABASE_SILENT = (OperationalError, PoolTimeout, psycopg.InterfaceError, DjangoOperationalError, InterfaceError)
#: The end of a call that another process reads is looked for so often.
ELSEWHERE_SECONDS = 0.2
#: Of one machine's requests so many bytes are held until they are answered; one that is small is not asked about.
MACHINE_BYTES = 256 * 1024 * 1024
_SMALL_BYTES = 16 * 1024


class Gateway:
    """One process's share. `name` is drawn anew at every start: what an earlier one left open is not this one's.

    While it is `draining` it begins nothing: it reads to their ends the calls that it has begun.
    """

    def __init__(self, settings: ProxySettings, database: Pool, client: aiohttp.ClientSession, name: str = ""):
        self.settings, self.database, self.client = settings, database, client
        self.name = name or uuid.uuid4().hex
        self.draining = False
        self.seals = Seals()
        self.deliveries = Deliveries(database, self.name)
        self.pumps: dict[str, Pump] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest: dict[tuple[str, str], Delivery] = {}  # of the connections for one relay's call, the last that came

    async def handle(self, who: Channel | None, request: web.Request) -> web.StreamResponse:
        """Answers every request, a refusal in the provider's own shape. `who` is None while that is not known."""
        found = route(request.method, request.rel_url.raw_path, anthropic="anthropic-version" in request.headers)
        try:
            if who is None:
                raise refusals.unknown_machine()
            return await self._handle(who, request, found)
        except Refusal as refusal:
            return _refused(refusal, found.provider)
        except DATABASE_SILENT:
            log.warning("the database does not answer a model call", extra={"session_id": who.session_id if who else ""})
            return _refused(refusals.unavailable(), found.provider)
        except RecursionError:
            return _refused(refusals.unreadable("The body's JSON is nested too deep."), found.provider)
        except Exception as error:
            told = faults.told(error)
            log.error("a model call failed unexpectedly", extra={"session_id": who.session_id if who else "", **told})
            if request.writer.output_size and request.transport is not None:  # it has begun to be answered
                answer.abort(request.transport)
                raise ConnectionResetError from None
            return _refused(refusals.failed(), found.provider)

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

    def _require_open(self) -> None:
        if self.draining:
            raise refusals.draining()

    async def _pass(self, who: Channel, asked: Asked, provider: Provider) -> web.StreamResponse:
        self._require_open()
        admission = Admission(who, self.database)
        async with self.database.connection() as connection:
            standing = _required(await standings.standing(connection, who, provider), provider)
        sealer = await self.seals.of(who.account_id)
        sent = self._upstream(asked, provider, sealer.unseal(standing.key_secret).decode())
        return await pass_on(self.client, admission, asked.method, self.settings.bases[provider] + asked.path, sent, asked.body)

    async def _call(self, who: Channel, request: web.Request, asked: Asked) -> web.StreamResponse:
        """The four tiers, in their order. Of an answer that did not arrive as a whole, the rest is for the same request, made again."""
        key, whole, refused = (who.session_id, asked.relay_id or uuid.uuid4().hex), False, False
        self._newest[key] = asked.delivery
        try:
            if asked.relay_id:
                response, whole = await answer.give_frames(request, self._found(who, asked), asked.route.provider)
            else:
                response, whole = await answer.give(request, await self._found(who, asked))
        except Refusal as refusal:
            refused = refusal.code != refusals.UNAVAILABLE  # then what was found already is for the retry
            raise
        finally:  # a caller that leaves cancels this task; a relay that has come back already has the answer in its hands
            if self._newest.get(key) is asked.delivery:
                del self._newest[key]
                if not refused:
                    self.deliveries.over(who, asked.delivery, whole=whole)
        return response

    async def _found(self, who: Channel, asked: Asked) -> Answer:
        """Raises Refusal."""
        try:
            await self.deliveries.ready(who)
            sealer = await self.seals.of(who.account_id)
            try:
                return await self._continued(who, asked, sealer) or await self._answered_or_sent(who, asked, sealer)
            except RelayKnown:
                found = await self._continued(who, asked, sealer)
                if found is None:
                    raise refusals.unavailable() from None
                return found
        except DATABASE_SILENT:
            log.warning("the database does not answer a model call", extra={"session_id": who.session_id if who else ""})
            raise refusals.unavailable() from None

    async def _answered_or_sent(self, who: Channel, asked: Asked, sealer: Sealer) -> Answer:
        self._require_open()
        provider, api = _known(asked.route)
        async with self.database.connection() as connection:
            standing = _required(await standings.standing(connection, who, provider), provider)
        found = await self._from_window(who, asked, standing, sealer) if standing.has_window else None
        if found is not None:
            return found
        if standing.over:
            raise refusals.over_budget(standing.over)
        self._require_room(who, asked)
        asked.delivery.opening = asyncio.create_task(self._begin(who, asked, standing, sealer))
        pump = await asyncio.shield(asked.delivery.opening)
        status, pairs = await asyncio.shield(pump.head)
        ping = KINDS[api].ping if asked.streamed and status < 400 else b""
        return Answer(status, pairs, pump.tail.read(0, quiet=answer.PING_SECONDS), ping, pump.call.id, Served.UPSTREAM)

    async def _begin(self, who: Channel, asked: Asked, standing: Standing, sealer: Sealer) -> Pump:
        """In a task of its own: a caller that leaves in between leaves no row that nobody reads."""
        try:
            return await self._open(who, asked, standing, sealer)
        except SteerTaken:
            return await self._open(who, asked, replace(standing, steer_id=None), sealer)

    async def _continued(self, who: Channel, asked: Asked, sealer: Sealer) -> Answer | None:
        """What the relay has begun under the name that it tells. Raises Refusal where it has a part of an answer that is not known."""
        if not asked.relay_id:
            return None
        async with self.database.connection() as connection:
            begun = await rows.of_relay(connection, who, asked.relay_id, asked.prints())
        found: Answer | None = None
        if begun is not None and begun.equal:
            served = Served.REPLAYED if begun.replayed else Served.CONTINUED
            found = await self._known_answer(who, begun.call_id, asked, sealer, served, again=True)
        elif begun is not None:
            asked.delivery.call_id = begun.call_id
            async with self.database.connection() as connection:
                rest = await self._rest_of(connection, who, begun.call_id, asked, sealer)
            found = None if rest is None else rest[1]
        if found is None and asked.offset:
            raise refusals.not_known()
        return found

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
                    asked.delivery.call_id = record.id
                    await rows.served_again(connection, who, record, Served.EXTENDED)
                    return rest
        return None

    async def _rest_of(self, connection: Any, who: Channel, call_id: str, asked: Asked, sealer: Sealer) -> tuple[Record, Answer] | None:
        stored = await rows.record(connection, who, call_id, Section.REQUEST)
        answered = await rows.record(connection, who, call_id)
        if stored is None or answered is None or asked.parsed is None or answered.state != CallState.COMPLETE:
            return None
        data, body = recorded.plain(answered, sealer), recorded.plain(stored, sealer)
        rest = recorded.rest(answered, data, body, asked.parsed, streamed=asked.streamed, start=asked.offset)
        return None if rest is None else (answered, rest)

    async def _known_answer(
        self, who: Channel, call_id: str, asked: Asked, sealer: Sealer, served: Served, *, again: bool = False
    ) -> Answer | None:
        """Of a call that is known: out of its pump while that reads, else out of the record; None if it has no answer to give.

        `again`: its caller had a part of it already, or could have. No connection of the database is held while a pump is waited for.
        Raises Refusal.
        """
        asked.delivery.call_id = call_id
        pump = self.pumps.get(call_id)
        if pump is not None and pump.call.streamed == asked.streamed:
            status, pairs = await asyncio.shield(pump.head)
            ping = KINDS[pump.call.api].ping if asked.streamed and status < 400 else b""
            return Answer(status, pairs, pump.tail.read(asked.offset, quiet=answer.PING_SECONDS), ping, call_id, served)
        if pump is not None:
            await pump.tail.over()
        found = await self._ended(who, call_id)
        if found is not None and again and found.state == CallState.REFUSED:
            return _refused_again(found, asked, sealer)
        if found is None or found.state != CallState.COMPLETE:
            return _broken(call_id, found, served) if again else None
        if not again:
            async with self.database.connection() as connection:
                await rows.served_again(connection, who, found, served)
        return recorded.again(
            found, recorded.plain(found, sealer), streamed=asked.streamed, with_usage=asked.wants_usage, served=served, start=asked.offset
        )

    async def _ended(self, who: Channel, call_id: str) -> Record | None:
        """Of a call that another process reads, another host's may be, the end is waited for."""
        while True:
            async with self.database.connection() as connection:
                found = await rows.record(connection, who, call_id)
            if found is None or not found.read_elsewhere or found.pump == self.name:
                return found
            await asyncio.sleep(ELSEWHERE_SECONDS)

    async def _open(self, who: Channel, asked: Asked, standing: Standing, sealer: Sealer) -> Pump:
        """The call's row is committed; then the provider hears of it. Raises Refusal, SteerTaken, RelayKnown; then nothing was written."""
        provider, api = _known(asked.route)
        steered = steering.steered(api, asked, sealer, standing)
        sending = self._sending(asked, provider, steered.body, sealer.unseal(standing.key_secret).decode())
        call = Opened(
            id=new_call_id(),
            relay_id=asked.relay_id,
            provider=provider,
            api=api,
            path=asked.path.partition("?")[0][:500],
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
        pieces = await seals.in_pieces(sealer, asked.body, call_rows.PIECE_BYTES)
        closing = sorted(CLOSED_BY_ANOTHER_WAY) if standing.has_window else []
        asked.delivery.call_id = call.id
        # before its row can be found: whoever finds it waits for this one
        self.pumps[call.id] = pump = Pump(who, call, sending, sealer, Admission(who, self.database))
        try:
            async with self.database.connection() as connection:
                if not await call_rows.open_call(connection, who, call, pieces, closing):
                    raise refusals.not_running()
        except BaseException as error:
            del self.pumps[call.id]
            pump.not_begun(error if isinstance(error, Refusal) else refusals.unavailable())
            raise
        self._spawn(self._run(pump), f"pump {call.id}")  # from here on nobody who waits for the answer can stop it from being read
        return pump

    def _require_room(self, who: Channel, asked: Asked) -> None:
        """One machine cannot take the memory that others' calls need, whether it waits for its answers or leaves."""
        if len(asked.body) > _SMALL_BYTES:
            held = sum(len(pump.sending.body) for pump in self.pumps.values() if pump.channel.session_id == who.session_id)
            if held + len(asked.body) > MACHINE_BYTES:
                raise refusals.busy(MACHINE_BYTES)

    def _sending(self, asked: Asked, provider: Provider, body: bytes, secret: str) -> Sending:
        """OpenAI tells usage of a chat's stream only to who asks for it; the gateway always asks, and keeps the chunk to itself."""
        parsed, drop = asked.parsed, False
        if asked.route.api == Api.CHAT and asked.streamed and parsed is not None:
            drop = not asked.wants_usage
            if drop:
                options = parsed.get("stream_options")
                wanted = {**(options if isinstance(options, dict) else {}), "include_usage": True}
                body = encoded({**json.loads(body), "stream_options": wanted})
        return Sending(self.settings.bases[provider] + asked.path, self._upstream(asked, provider, secret), body, drop)

    def _upstream(self, asked: Asked, provider: Provider, secret: str) -> dict[str, str]:
        bearer = "x-api-key" not in asked.headers and "authorization" in asked.headers
        name, value = channel.key_header(provider, secret, bearer)
        return {**headers.upstream(asked.headers), name: value}

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, pump: Pump) -> None:
        try:
            await pump.run(self.client, self.database)
        finally:
            self.pumps.pop(pump.call.id, None)

    async def beat(self) -> None:
        """For as long as the process lives."""
        while True:
            if self.pumps:
                try:
                    async with self.database.connection() as connection:
                        await rows.beat(connection, self.name, list(self.pumps))
                except (OperationalError, PoolTimeout):
                    log.warning("the database does not answer the gateway's beat")
            await asyncio.sleep(BEAT_SECONDS)

    async def drain(self, seconds: float) -> int:
        """Wait for the pumps to end, so long at most. Returns how many are left."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        await self.deliveries.end(seconds)
        return len(self._tasks)


def _required(standing: Standing | None, provider: Provider) -> Standing:
    if standing is None or not standing.runs:
        raise refusals.not_running()
    if standing.key_id is None:
        raise refusals.no_key(provider)
    return standing


def _known(found: Route) -> tuple[Provider, Api]:
    assert found.provider is not None
    assert found.api is not None
    return found.provider, found.api


def _broken(call_id: str, found: Record | None, served: Served) -> Answer | None:
    """The relay's call began and did not end: it is told so, for to send it again would be to pay twice."""
    if found is None:
        return None
    return Answer(found.http_status or 502, found.headers, cut_off(), b"", call_id, served)


def _refused_again(found: Record, asked: Asked, sealer: Sealer) -> Answer:
    """The provider's own words, once more; where it was not reached, there are none."""
    if not found.http_status:
        raise refusals.not_reached("as it was said before")
    return recorded.again(
        found, recorded.plain(found, sealer), streamed=found.events, with_usage=True, served=Served.CONTINUED, start=asked.offset
    )


def _refused(refusal: Refusal, provider: Provider | None) -> web.Response:
    return web.Response(status=refusal.status, body=refusal.body(provider), headers=refusal.headers(), content_type="application/json")
