"""A machine's request as the gateway takes it: bounded, unpacked, parsed once, with its keys."""

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from aiohttp import web

from gateway_app.calls.fingerprint import Fingerprint, fingerprint
from gateway_app.proxy import body as bodies
from gateway_app.proxy import refusals
from gateway_app.proxy.headers import clean
from gateway_app.proxy.routes import Route
from gateway_app.states import Api
from gateway_app.streams.reader import named

if TYPE_CHECKING:
    from gateway_app.proxy.pump import Pump

#: A body that is larger is parsed in a thread, so that others do not wait for it.
_INLINE_BYTES = 64 * 1024
RELAY = "x-keepstate-relay"
OFFSET = "x-keepstate-offset"
_RELAY_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_EVENTS = "alt=sse"


@dataclass(eq=False)
class Delivery:
    """One request's answer on its way. `call_id`: as soon as it is known which call answers; `opening`: while that call is being opened."""

    call_id: str = ""
    opening: "asyncio.Task[Pump] | None" = None


@dataclass(frozen=True)
class Asked:
    """`path` with its query, without a credential in it. `parsed` is the body's JSON object, or None."""

    route: Route
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    parsed: dict[str, Any] | None
    query_key: str
    relay_id: str
    offset: int
    delivery: Delivery = field(default_factory=Delivery)

    @property
    def streamed(self) -> bool:
        """Whether the answer is asked for as events."""
        if self.route.streams is not None:
            return self.route.streams and _EVENTS in self._query
        return self.parsed is not None and self.parsed.get("stream") is True

    @property
    def model(self) -> str:
        if self.route.streams is not None:  # its path names it
            return named(self.path.rpartition("/models/")[2].partition(":")[0])
        return named((self.parsed or {}).get("model"))

    @property
    def wants_usage(self) -> bool:
        """Of a chat: whether a stream is to tell usage in a chunk of its own."""
        options = (self.parsed or {}).get("stream_options")
        return not self.streamed or (isinstance(options, dict) and bool(options.get("include_usage")))

    @property
    def _query(self) -> list[str]:
        return self.path.partition("?")[2].split("&")

    def prints(self) -> Fingerprint:
        return fingerprint(
            provider=str(self.route.provider),
            method=self.method,
            path=self._transported_either_way(),
            headers=self.headers,
            body=self.body,
            parsed=self.parsed,
        )

    def _transported_either_way(self) -> str:
        """Gemini's path says how the answer is transported; a list of chunks is in no other way to be had."""
        if not self.route.streams or not self.streamed:
            return self.path
        path, query = self.path.partition("?")[0], [part for part in self._query if part != _EVENTS]
        return path.replace(":streamGenerateContent", ":generateContent") + (f"?{'&'.join(query)}" if query else "")


async def read(request: web.BaseRequest, route: Route) -> Asked:
    """Raises Refusal."""
    headers = _joined(request)
    path, query_key = _without_key(request)
    relay_id = headers.get(RELAY, "")
    if relay_id and not _RELAY_ID.fullmatch(relay_id):
        raise refusals.unreadable("The relay's name of the call has other characters than a name has.")
    body = await bodies.read(request, headers.get("content-encoding", "").strip().lower())
    value = await asyncio.to_thread(parsed, body) if len(body) > _INLINE_BYTES else parsed(body)
    if route.api == Api.RESPONSES and value is not None and value.get("background"):
        raise refusals.background()
    return Asked(route, request.method, path, headers, body, value, query_key, relay_id, _offset(headers.get(OFFSET, "")))


def _joined(request: web.BaseRequest) -> dict[str, str]:
    """By lower-case name. A header that comes twice is the list of both, as HTTP has it: each beta may come in a line of its own."""
    found: dict[str, str] = {}
    for name, value in request.headers.items():
        if clean(value):
            known = found.get(name.lower())
            found[name.lower()] = value if known is None else f"{known}, {value}"
    return found


def parsed(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _without_key(request: web.BaseRequest) -> tuple[str, str]:
    """The path with its query as they came, and the credential that was in it. Raises Refusal."""
    url = request.rel_url
    if not (url.raw_path + url.raw_query_string).isascii():
        raise refusals.unreadable("The address is not ASCII.")
    parts = [part for part in url.raw_query_string.split("&") if part]
    keys = [value for part in parts for name, value in parse_qsl(part, keep_blank_values=True) if name == "key"]
    kept = "&".join(part for part in parts if not any(name == "key" for name, _ in parse_qsl(part, keep_blank_values=True)))
    return url.raw_path + (f"?{kept}" if kept else ""), next((key for key in keys if key), "")


def _offset(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
