"""A machine's request as the gateway takes it: bounded, unpacked, parsed once, with its keys."""

import asyncio
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from gateway_app.calls.fingerprint import Fingerprint, fingerprint
from gateway_app.proxy import refusals
from gateway_app.proxy.routes import Route

if TYPE_CHECKING:
    from gateway_app.proxy.pump import Pump

#: After it was unpacked.
BODY_BYTES = 64 * 1024 * 1024
#: A body that is larger is parsed in a thread, so that others do not wait for it.
_INLINE_BYTES = 64 * 1024
RELAY = "x-keepstate-relay"
OFFSET = "x-keepstate-offset"


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
        if self.route.streams is not None:
            return self.route.streams
        return self.parsed is not None and self.parsed.get("stream") is True

    @property
    def model(self) -> str:
        if self.route.streams is not None:  # its path names it
            return self.path.rpartition("/models/")[2].partition(":")[0][:100]
        model = (self.parsed or {}).get("model")
        return model[:100] if isinstance(model, str) else ""

    def prints(self) -> Fingerprint:
        return fingerprint(
            provider=str(self.route.provider),
            method=self.method,
            path=self.path.replace(":streamGenerateContent", ":generateContent").replace("?alt=sse", ""),
            headers=self.headers,
            body=self.body,
            parsed=self.parsed,
        )


async def read(request: web.Request, route: Route) -> Asked:
    """Raises Refusal."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    body = await _body(request, headers.get("content-encoding", "").lower())
    value = await (asyncio.to_thread(parsed, body) if len(body) > _INLINE_BYTES else _parsed_at_once(body))
    path, query_key = _without_key(request)
    return Asked(
        route, request.method, path, headers, body, value, query_key, headers.get(RELAY, "")[:64], _offset(headers.get(OFFSET, ""))
    )


async def _body(request: web.Request, encoding: str) -> bytes:
    if encoding not in ("", "identity", "gzip"):
        raise refusals.unreadable("The body's encoding is neither gzip nor none.")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    taken = bytearray()
    try:
        async for piece in request.content.iter_chunked(1 << 18):
            taken += unpacker.decompress(piece, BODY_BYTES + 1) if unpacker else piece
            if len(taken) > BODY_BYTES or (unpacker and unpacker.unconsumed_tail):
                raise refusals.too_large(BODY_BYTES)
    except zlib.error:
        raise refusals.unreadable("The body is no gzip.") from None
    if unpacker and not unpacker.eof:
        raise refusals.unreadable("The body's gzip is cut short.")
    return bytes(taken)


def parsed(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


async def _parsed_at_once(body: bytes) -> dict[str, Any] | None:
    return parsed(body)


def _without_key(request: web.Request) -> tuple[str, str]:
    pairs = parse_qsl(request.query_string, keep_blank_values=True)
    kept = [(name, value) for name, value in pairs if name != "key"]
    key = next((value for name, value in pairs if name == "key"), "")
    query = urlencode(kept) if key else request.query_string
    return request.path + (f"?{query}" if query else ""), key


def _offset(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
