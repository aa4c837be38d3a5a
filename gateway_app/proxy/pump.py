"""Reads one answer of a provider to its end, whoever waits for it and whoever has left: once sent, it is billed, so it is recorded.

What an event releases to readers is everything but the event that ends the stream: that one waits until the end of the call, its bytes and
its bill are durable. A reader that has seen the end of an answer can rely on its record.
"""

import asyncio
import json
import logging
import time
from dataclasses import dataclass, field

import aiohttp
from psycopg import OperationalError
from psycopg_pool import PoolTimeout
from yarl import URL

from gateway_app import pricing
from gateway_app.proxy import call_rows, faults, headers, refusals, seals
from gateway_app.proxy.admission import Admission, Overtaken
from gateway_app.proxy.call_rows import Ended, Opened
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.pool import Pool
from gateway_app.proxy.refusals import Refusal
from gateway_app.proxy.seals import INLINE_BYTES
from gateway_app.proxy.tail import Tail
from gateway_app.states import CallState
from gateway_app.streams.kinds import KINDS, Kind
from gateway_app.streams.reader import End, Reader, Seen, parsed
from gateway_app.streams.sse import Event, EventTooLarge, Splitter
from gateway_app.usage import Tokens
from sessions_app.services.steps import Sealer

log = logging.getLogger(__name__)

#: An answer that is larger is cut.
ANSWER_BYTES = 64 * 1024 * 1024
#: The end of a call is tried to be written for so long, while the database does not answer.
WRITE_SECONDS = 30.0
#: After a stream's last event its connection is given so long to end in order; it can be used again then.
LAST_SECONDS = 1.0
_EVENTS = "text/event-stream"


class AnswerTooLarge(Exception):
    pass


@dataclass(frozen=True)
class Sending:
    """What goes upstream. `drop_usage`: the gateway asked for the chunk that tells usage, the client did not."""

    url: str
    headers: dict[str, str]
    body: bytes
    drop_usage: bool = False


@dataclass
class Pump:
    """`head` resolves to status and headers of the answer, or raises a Refusal where there will be none."""

    channel: Channel
    call: Opened
    sending: Sending
    sealer: Sealer
    admission: Admission
    tail: Tail = field(default_factory=Tail)
    head: "asyncio.Future[tuple[int, list[tuple[str, str]]]]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    began: float = field(default_factory=time.monotonic)
    first_byte: float | None = None

    async def run(self, client: aiohttp.ClientSession, database: Pool) -> None:
        """Never raises: what goes wrong is the call's end."""
        status: int | None = None
        arrived = False
        state, seen, pairs = CallState.CUT, Seen(End.OPEN, Tokens(), "", []), list[tuple[str, str]]()
        try:
            url, body = URL(self.sending.url, encoded=True), self.sending.body
            sent = client.post(url, data=body, headers=self.sending.headers, allow_redirects=False, trace_request_ctx=self.admission)
            async with sent as answer:
                status, pairs = answer.status, headers.back(answer.headers.items())
                self.first_byte = time.monotonic()
                streamed = status < 400 and answer.content_type == _EVENTS
                if streamed:
                    self.head.set_result((status, pairs))
                seen = await (self._stream(answer) if streamed else self._whole(answer))
                arrived = not streamed or seen.end == End.COMPLETE
                state = CallState.REFUSED if status >= 400 else CallState.COMPLETE if seen.end == End.COMPLETE else CallState.CUT
        except Overtaken:
            state = CallState.REFUSED  # it was not sent
            self._no_head(refusals.not_running())
        except (OperationalError, PoolTimeout):  # before it was sent, for it could not be confirmed
            state = CallState.REFUSED
            self._no_head(refusals.unavailable())
        except aiohttp.ClientConnectorError as error:
            state = CallState.REFUSED  # it never had the request
            self._no_head(refusals.not_reached(type(error).__name__))
        except (aiohttp.ClientError, TimeoutError, OSError, EventTooLarge, AnswerTooLarge) as error:
            log.info("an answer broke", extra={"call_id": self.call.id, "reason": type(error).__name__})
        except Exception as error:
            log.error("a pump failed", extra={"call_id": self.call.id, **faults.told(error)})
        try:
            await self._end(database, state, status, pairs, seen, arrived=arrived)
        except Exception as error:
            log.error("the end of a call failed", extra={"call_id": self.call.id, **faults.told(error)})
            self._no_head(refusals.not_recorded())
            self.tail.cut()

    async def _stream(self, answer: aiohttp.ClientResponse) -> Seen:
        """An answer whose last event has come is whole, whatever becomes of the connection then, and waits no longer for its end."""
        kind, splitter = KINDS[self.call.api], Splitter()
        reader = kind.reader()
        try:
            async with asyncio.timeout(None) as limit:
                async for piece in answer.content.iter_any():
                    self._take(splitter.feed(piece), reader)
                    if kind.terminal and reader.end == End.COMPLETE and limit.when() is None:
                        limit.reschedule(asyncio.get_running_loop().time() + LAST_SECONDS)
        except (aiohttp.ClientError, TimeoutError, OSError):
            if not kind.terminal or reader.end != End.COMPLETE:
                raise
        self._add(splitter.tail, release=False)
        return reader.seen

    def _take(self, events: list[Event], reader: Reader) -> None:
        for event in events:
            reader.take(event)
            if not (self.sending.drop_usage and _tells_only_usage(event)):
                self._add(event.raw, release=reader.end != End.COMPLETE)

    async def _whole(self, answer: aiohttp.ClientResponse) -> Seen:
        async for piece in answer.content.iter_any():
            self._add(piece, release=False)
        kind, data = KINDS[self.call.api], bytes(self.tail.data)
        return _read_json(kind, data) if len(data) <= INLINE_BYTES else await asyncio.to_thread(_read_json, kind, data)

    def _add(self, piece: bytes, *, release: bool) -> None:
        if len(self.tail.data) + len(piece) > ANSWER_BYTES:
            raise AnswerTooLarge
        self.tail.add(piece, release=release)

    async def _end(
        self, database: Pool, state: CallState, status: int | None, pairs: list[tuple[str, str]], seen: Seen, *, arrived: bool
    ) -> None:
        """`arrived`: the answer came to its end as HTTP and, if it is a stream, as its protocol ends."""
        known = seen.tokens if state == CallState.COMPLETE else Tokens()  # of what broke it is not known what was billed
        model = seen.model or self.call.model
        price = pricing.microusd(self.call.provider, model, known, ordinary=seen.ordinary)
        ended = Ended(state, status, pairs, len(self.tail.data), known, model, price.microusd, price.version)
        durable = await self._written(database, ended)
        if not durable:
            self._no_head(refusals.not_recorded())
            self.tail.cut()
        elif not arrived:
            self._no_head(Refusal(502, "ks_provider_gone", "The provider broke off. Whether it billed the call is not known.", retry=True))
            self.tail.cut()
        else:
            self.tail.end()
            if not self.head.done() and status is not None:
                self.head.set_result((status, pairs))

    def not_begun(self, refusal: Refusal) -> None:
        """There is no such call: whoever waits for it hears why."""
        self._no_head(refusal)
        self.tail.cut()

    def _no_head(self, refusal: Refusal) -> None:
        if not self.head.done():
            self.head.set_exception(refusal)
            self.head.exception()  # whoever waited may have left

    async def _written(self, database: Pool, ended: Ended) -> bool:
        """Tried again while the database does not answer: until it is durable, nobody may see the end."""
        sealed = await seals.in_pieces(self.sealer, bytes(self.tail.data), call_rows.PIECE_BYTES)
        until, pause = time.monotonic() + WRITE_SECONDS, 0.05
        while True:
            try:
                async with database.connection() as connection:
                    since = None if self.first_byte is None else time.monotonic() - self.first_byte
                    return await call_rows.end_call(connection, self.channel, self.call, ended, sealed, since)
            except (OperationalError, PoolTimeout) as error:
                if time.monotonic() > until:
                    log.error("the end of a call could not be written", extra={"call_id": self.call.id, "reason": type(error).__name__})
                    return False
            await asyncio.sleep(pause)
            pause = min(1.0, pause * 2)


def _tells_only_usage(event: Event) -> bool:
    if '"prompt_tokens"' not in event.data:
        return False  # most are a word of the answer: they are not parsed twice
    told = parsed(event)
    return told is not None and told.get("choices") == [] and isinstance(told.get("usage"), dict)


def _read_json(kind: Kind, data: bytes) -> Seen:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, list) and kind.read_list is not None:
        return kind.read_list(answer)
    return kind.read_json(answer) if isinstance(answer, dict) else Seen(End.OPEN, Tokens(), "", [])
