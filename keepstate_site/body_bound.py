"""No request's body is larger than its route takes: refused before Django, which would write all of it to the disk first."""

import json
import re
from typing import Any

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, HTTPScope

from sessions_app.api.envelope import Shape, failure
from sessions_app.errors import TooLarge
from sessions_app.services import bounds

FILE = re.compile(r"/api/v2/sessions/[^/]+/files/content")
WORKSPACES = "/api/v2/workspaces"
#: Beyond what the routes take themselves: they say by more than a number what was too large.
SLACK_BYTES = 64 * 1024
OTHER_BYTES = 2 * 1024 * 1024


class _Exceeded(Exception):
    pass


async def bounded(application: ASGI3Application, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Pass the request on, or answer 413."""
    most = _most(scope["path"])
    announced = dict(scope["headers"]).get(b"content-length", b"")
    if announced.isdigit() and int(announced[:20]) > most:
        await _refuse(scope, send, most)
        return
    received = 0

    async def counted() -> ASGIReceiveEvent:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message["body"])
            if received > most:
                raise _Exceeded
        return message

    try:
        await application(scope, counted, send)
    except _Exceeded:
        await _refuse(scope, send, most)


def _most(path: str) -> int:
    if path == WORKSPACES:
        return bounds.WORKSPACE_BYTES + SLACK_BYTES
    return bounds.UPLOAD_BYTES + SLACK_BYTES if FILE.fullmatch(path) else OTHER_BYTES


async def _refuse(scope: HTTPScope, send: ASGISendCallable, most: int) -> None:
    error = TooLarge(f"A body on this route has at most {most} bytes. Nothing was done.")
    body = json.dumps(failure(Shape.V2 if scope["path"].startswith("/api/v2/") else Shape.PLAIN, error.as_dict())).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    start: dict[str, Any] = {"type": "http.response.start", "status": error.status, "headers": headers, "trailers": False}
    await send(start)  # type: ignore[arg-type]
    await send({"type": "http.response.body", "body": body, "more_body": False})
