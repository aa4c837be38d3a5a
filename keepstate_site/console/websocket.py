"""The terminal as a WebSocket: /api/v2/sessions/<id>/console. docs/operations/console.md describes its messages and its close codes."""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, WebSocketScope

from keepstate_site.console.admission import SUBPROTOCOL, Visit, admit, is_secure
from keepstate_site.console.bridge import CONSOLES, bridge
from keepstate_site.console.link import open_terminal
from keepstate_site.console.threads import in_thread
from sessions_app.api.envelope import Shape, failure
from sessions_app.errors import FleetUnavailable, Internal, NotServed, ServiceError

PATH = re.compile(r"/api/v2/sessions/([^/]+)/console")
TEXT_BYTES = 1024
CLOSE_SECONDS = 5.0
#: By reason. 4xxx are ours: what the client may do about them is in the documents.
CLOSE_CODES: Mapping[str, int] = {
    "shell_ended": 1000, "client_left": 1000, "relay_closed": 1012, "full": 1013,
    "machine_stopped": 4001, "too_slow": 4008, "idle": 4009, "token_revoked": 4010, "malformed": 1003,
}  # fmt: skip

_places = asyncio.Semaphore(CONSOLES)


class Socket:
    """The connection as a `Screen`."""

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable):
        self._receive, self._send = receive, send

    async def show(self, output: bytes) -> None:
        await self._send({"type": "websocket.send", "bytes": output, "text": None})

    async def tell(self, notice: dict[str, Any]) -> None:
        await self._send({"type": "websocket.send", "bytes": None, "text": json.dumps(notice)})

    async def receive(self) -> bytes | tuple[int, int] | None:
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                return None
            data, text = message.get("bytes"), message.get("text")
            if data is not None:
                return data
            size = _size(text or "")
            if size is not None:
                return size


async def websocket(scope: WebSocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    if (await receive())["type"] != "websocket.connect":
        return
    if _places.locked():
        await _refuse(send, FleetUnavailable("This process has as many consoles open as it takes. Nothing was opened."))
        return
    async with _places:
        try:
            visit = await in_thread(_admitted, scope)
            link = await open_terminal(visit)
        except ServiceError as error:
            await _refuse(send, error)
            return
        accepted = SUBPROTOCOL if SUBPROTOCOL in scope["subprotocols"] else None
        try:
            await send({"type": "websocket.accept", "subprotocol": accepted, "headers": []})
        except BaseException:
            link.close()
            raise
        why = await bridge(visit, link, Socket(receive, send), "websocket")
        if why != "client_left":
            with suppress(TimeoutError):  # one that does not read is not told; its place is free all the same
                async with asyncio.timeout(CLOSE_SECONDS):
                    await send({"type": "websocket.close", "code": CLOSE_CODES.get(why, 1011), "reason": why})


def _admitted(scope: WebSocketScope) -> Visit:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    found = PATH.fullmatch(scope["path"])
    if found is None:
        raise NotServed("This service has no such WebSocket. Nothing was opened.", next_action="See the routes at /api/docs.")
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    secure, client = is_secure(scope["scheme"] == "wss", headers), scope.get("client")
    return admit(found[1], headers, query, scope["subprotocols"], secure=secure, client=client[0] if client else "")


async def _refuse(send: ASGISendCallable, error: ServiceError) -> None:
    """An answer to the request for the upgrade, in the API's shape."""
    shown = error if error.status != Internal.status else Internal("The console could not be opened.")
    body = json.dumps(failure(Shape.V2, shown.as_dict()), default=str).encode()
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    await send({"type": "websocket.http.response.start", "status": shown.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})


def _size(text: str) -> tuple[int, int] | None:
    """Of {"resize": [columns, rows]}; None for another object, which is of a later version. Raises ValueError."""
    try:
        said = json.loads(text) if len(text) <= TEXT_BYTES else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ValueError("not a message of this protocol")
    if "resize" not in said:
        return None
    size = said["resize"]
    if not (isinstance(size, list) and len(size) == 2 and all(type(number) is int and 0 < number < 2**16 for number in size)):
        raise ValueError("not a message of this protocol")
    return size[0], size[1]
