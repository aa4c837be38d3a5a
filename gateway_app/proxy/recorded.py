"""A recorded answer, served again: byte for byte, or in the other transport, or only its rest."""

import json
from typing import Any

from gateway_app.calls import extend
from gateway_app.proxy.answer import Answer, ready
from gateway_app.proxy.rows import Record
from gateway_app.states import Api, Served
from gateway_app.streams.chat import usage_of
from gateway_app.streams.kinds import KINDS
from gateway_app.streams.reader import encoded
from gateway_app.streams.sse import Splitter
from sessions_app.services.steps import Sealer

_EVENTS = ("content-type", "text/event-stream; charset=utf-8")
_JSON = ("content-type", "application/json")


def plain(record: Record, sealer: Sealer) -> bytes:
    """Raises IntegrityFailed."""
    return b"".join(sealer.unseal(piece) for piece in record.pieces)


def again(record: Record, data: bytes, *, streamed: bool, with_usage: bool, served: Served, start: int = 0) -> Answer:
    """The whole answer in the transport that is asked for, from a byte on. `with_usage`: a chat's stream is to tell it."""
    if streamed == record.events:
        return _answer(record, record.headers, [data], streamed, served, start)
    folded = as_json(record, data)
    if folded is None:  # what cannot be told in the other transport is told in its own
        return _answer(record, record.headers, [data], record.events, served, start)
    if record.api == Api.CHAT:
        folded = _chat_with_usage(record, folded) if with_usage else {name: value for name, value in folded.items() if name != "usage"}
    if streamed:
        return _answer(record, _typed(record, _EVENTS), list(KINDS[record.api].unfold(folded)), streamed, served, start)
    return _answer(record, _typed(record, _JSON), [encoded(folded)], streamed, served, start)


def _chat_with_usage(record: Record, folded: dict[str, Any]) -> dict[str, Any]:
    """A stream whose caller did not ask for usage was recorded without it; the call's row has it."""
    return {**folded, "usage": usage_of(record.tokens)} if "usage" not in folded and record.tokens.known else folded


def as_json(record: Record, data: bytes) -> dict[str, Any] | None:
    """The answer as its provider gives it whole; None if it is not complete."""
    if not record.events:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None
    reader = KINDS[record.api].reader()
    for event in Splitter().feed(data):
        reader.take(event)
    return reader.folded()


def rest(record: Record, data: bytes, stored_request: bytes, request: dict[str, Any], *, streamed: bool, start: int = 0) -> Answer | None:
    """What the request does not have of the answer yet, if it goes on from it (gateway_app.calls.extend); else None."""
    goes_on = {Api.ANTHROPIC: extend.anthropic, Api.RESPONSES: extend.responses}.get(record.api)
    folded = as_json(record, data) if goes_on is not None else None
    if goes_on is None or folded is None:
        return None
    field = KINDS[record.api].blocks
    try:
        found = goes_on(request, json.loads(stored_request), folded.get(field) or [])
    except (ValueError, RecursionError):
        return None
    if found is None:
        return None
    left = {**folded, field: found.blocks}
    if streamed:
        return _answer(record, _typed(record, _EVENTS), list(KINDS[record.api].unfold(left)), streamed, Served.EXTENDED, start)
    return _answer(record, _typed(record, _JSON), [encoded(left)], streamed, Served.EXTENDED, start)


def _answer(record: Record, headers: list[tuple[str, str]], pieces: list[bytes], streamed: bool, served: Served, start: int) -> Answer:
    ping = KINDS[record.api].ping if streamed else b""
    return Answer(record.http_status, headers, ready(pieces, start), ping, record.id, served)


def _typed(record: Record, content_type: tuple[str, str]) -> list[tuple[str, str]]:
    return [*((name, value) for name, value in record.headers if name.lower() != "content-type"), content_type]
