"""A caller of the API, in the process: real routing, real middleware, real database."""

import json
import uuid
from typing import Any

from asgiref.sync import async_to_sync
from django.core.signals import request_finished
from django.db import close_old_connections
from django.test import Client

from tests.support.fleet import Tenant


def new_key() -> str:
    return "ksop_" + uuid.uuid4().hex


_streams: list[Any] = []


def close_streams() -> None:
    """What streams and was not read holds what it was given, until it is closed as a server closes it. The test keeps its connection."""
    request_finished.disconnect(close_old_connections)
    try:
        while _streams:
            _streams.pop().close()
    finally:
        request_finished.connect(close_old_connections)


def read(answer: Any) -> bytes:
    """All that an answer streams, taken as a server takes it, and the answer closed."""

    async def pieces() -> list[bytes]:
        return [piece async for piece in answer]

    try:
        return b"".join(async_to_sync(pieces)())
    finally:
        answer.close()


class Caller:
    """Sends JSON with a token. Mutations prefer an answer at once (202), as the published client does, unless `wait`."""

    def __init__(self, plain: str | None):
        self.plain = plain
        self.client = Client(raise_request_exception=False)

    def __call__(self, method: str, path: str, body: Any = None, *, key: str | None = None, wait: bool = False, **headers: str) -> Any:
        sent = {"X-KS-Protocol": "2", **({"Authorization": f"Bearer {self.plain}"} if self.plain else {})}
        if method not in ("GET", "HEAD") and not wait:
            sent["Prefer"] = "respond-async"
        if key is not None:
            sent["Idempotency-Key"] = key
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = self.client.generic(method, path, content, content_type="application/json", headers=sent)
        if answer.streaming:
            _streams.append(answer)
        return answer


def caller(tenant: Tenant) -> Caller:
    return Caller(tenant.plain)


def error_of(response: Any) -> dict[str, Any]:
    """The error of either shape, as code, message, next_action and facts; it must be one of them."""
    content = response.json()
    error = content["error"]
    if isinstance(error, dict):
        assert content["schema_version"] == 2
        assert error["code"] == error["type"]
        assert error["message"]
        return dict(error)
    assert content["message"]
    return {**content, "code": error}
